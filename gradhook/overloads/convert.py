"""Conversions of dtype and device: to, float, cpu, type_as, ...

A conversion that changes nothing returns its input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gradhook import backend, dtypes, streams
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor

_CASTS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "long": dtypes.int64,
    "int": dtypes.int32,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}
FUNCTIONS: tuple[str, ...] = ()
METHODS = ("to", "type", "type_as", "cpu", "cuda", "record_stream", *_CASTS)
PROPERTIES: tuple[str, ...] = ()
RENAMED = {name: f"{name}_" for name in _CASTS} | {"type": "type_"}


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """to(dtype), to(device), to(device, dtype), to(other), with non_blocking, copy: the tensor
    itself where nothing changes.

    Errors: TypeError for other arguments; DeviceError for a device that is not there.
    """
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    copy = kwargs.pop("copy", False)
    kwargs.pop("non_blocking", None)
    kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() received an invalid keyword argument {next(iter(kwargs))!r}")
    flags = [a for a in args if isinstance(a, bool)]
    copy = copy or (len(flags) > 1 and flags[1])
    for a in args:
        if isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, str | backend.device) or (
            isinstance(a, int) and not isinstance(a, bool)
        ):
            device = a
        elif a is not None and not isinstance(a, bool):
            dtype = a
    result = self
    if device is not None:
        result = moved(
            result, backend.device(device) if not isinstance(device, backend.device) else device
        )
    if dtype is not None and dtypes.raw(dtype) != result._a.dtype:
        result = ops.cast(result, dtype=dtypes.raw(dtype))
    return ops.clone(result) if copy and result is self else result


def moved(x: Tensor, device: Any) -> Tensor:
    """x on a device, itself where it is there. The gradient comes back to the device of x."""
    source = x.device
    target = backend.resolved(device)
    if source == target:
        return x
    move = partial(backend.to_device, device=target)
    back = partial(backend.to_device, device=source)
    return ops.transfer(x, move=move, back=back)


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in host memory, itself where it is there."""
    return moved(self, backend.device("cpu"))


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a CUDA device, itself where it is there.

    Errors: DeviceError where there is none.
    """
    if isinstance(device, int):
        device = f"cuda:{device}"
    return moved(
        self, backend.device(device or "cuda") if not isinstance(device, backend.device) else device
    )


def record_stream(self: Tensor, stream: Any) -> None:
    """Keep this tensor's memory, when the tensor has died, until `stream` has done what is queued
    on it then. For a tensor made on one stream and used on another.

    Errors: RuntimeError for a CPU tensor.
    """
    if not self.is_cuda:
        raise RuntimeError("record_stream: found a CPU tensor, expected one on a CUDA device")
    self._a = streams.guarded(self._a, stream)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of another."""
    return to(self, other.dtype)


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The dtype's PyTorch name without an argument, else the tensor in another dtype."""
    if dtype is None:
        return f"torch.{self.dtype.title}Tensor"
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        title = dtype.rpartition(".")[2][: -len("Tensor")]
        dtype = next((d for d in dtypes.ALL if d.title == title), dtype)
    return to(self, dtype)


def _cast(name: str, dtype: dtypes.dtype) -> Callable[..., Tensor]:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        return self if self._a.dtype == dtype.np else ops.cast(self, dtype=dtype.np)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {dtype.name}, itself where it is that."
    return convert


for _name, _dtype in _CASTS.items():
    globals()[f"{_name}_"] = _cast(_name, _dtype)
