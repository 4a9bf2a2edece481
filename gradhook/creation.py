"""Making tensors: from data (copied or shared), constant, ranges, random. Source of names:
torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradhook import backend, dtypes, random
from gradhook.autograd.binding import make, mark_inference
from gradhook.modes import get_modes
from gradhook.tensor import Tensor


def _finished(array: Any, device: Any, requires_grad: bool) -> Tensor:
    return _wrapped(make(backend.to_device(array, _where(device))), requires_grad)


def _where(device: Any) -> backend.device:
    return backend.default_device() if device is None else backend.device(device)


def _created(device: Any, requires_grad: bool, name: str, *args: Any) -> Tensor:
    """What a function of the array module makes on the device itself, without a transfer."""
    return _wrapped(make(backend.call_on(_where(device), name, *args)), requires_grad)


def _dtype(dtype: Any) -> Any:
    return dtypes.raw(dtype) or dtypes.get_default_dtype().np


def _wrapped(made: Tensor, requires_grad: bool) -> Tensor:
    if get_modes().inference:
        mark_inference((made,))
    return made.requires_grad_() if requires_grad else made


def _from_data(data: Any, dtype: Any) -> Any:
    """A fresh host or device array of Python data, arrays, tensors, or nested sequences of them."""
    wanted = dtypes.raw(dtype)
    if isinstance(data, Tensor):
        return data._a.astype(wanted or data._a.dtype)
    if isinstance(data, np.ndarray | np.generic) or type(data) in backend.array_types():
        dtypes.of(wanted or data.dtype)
        array = (
            backend.array_module(data).array(data, dtype=wanted)
            if not isinstance(data, np.generic)
            else None
        )
        return np.array(data, dtype=wanted) if array is None else array
    plain = _plain(data)
    try:
        array = np.array(plain)
    except ValueError as error:
        raise ValueError(
            f"tensor(): the nested sequence has rows of different lengths: {error}"
        ) from error
    if array.dtype == object or array.dtype.kind in "USV":
        raise TypeError(
            f"tensor(): expected numbers, nested sequences of numbers, arrays or tensors, found "
            f"{type(data).__name__} "
            f"with elements NumPy sees as {array.dtype}"
        )
    if wanted is None:
        wanted = {
            "b": np.dtype("?"),
            "i": np.dtype("i8"),
            "u": np.dtype("i8"),
            "f": dtypes.get_default_dtype().np,
        }.get(array.dtype.kind, dtypes.complex_of(dtypes.get_default_dtype().np))
        if array.size == 0:
            wanted = dtypes.get_default_dtype().np
        elif _has_numpy(plain):
            wanted = array.dtype
    return array.astype(wanted, copy=False)


def _plain(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.detach().cpu().numpy()
    if isinstance(data, list | tuple | range):
        return [_plain(v) for v in data]
    return data


def _has_numpy(data: Any) -> bool:
    while isinstance(data, list) and data:
        data = data[0]
    return isinstance(data, np.ndarray | np.generic)


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested sequences, arrays or tensors.

    dtype: inferred when None (Python floats become the default dtype, ints int64). A CuPy array
    stays on its device.
    Errors: TypeError for what holds no numbers, ValueError for ragged sequences.
    """
    array = _from_data(data, dtype)
    if device is None and (isinstance(data, Tensor) or backend.is_cupy(array)):
        device = backend.device_of(array)
    return _finished(array, device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor that shares the memory of `data` (array or tensor) where dtype and device allow,
    else a copy. Result: shape of data; dtype: as tensor() where None.
    """
    wanted = dtypes.raw(dtype)
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(device=device, dtype=dtype)
    if type(data) in backend.array_types() or isinstance(data, np.ndarray):
        array = np.asarray(data) if isinstance(data, np.ndarray) else data
        dtypes.of(backend.entered(array).dtype)
        array = array if wanted is None else array.astype(wanted, copy=False)
        return make(array if device is None else backend.to_device(array, device))  # type: ignore[no-any-return]
    if hasattr(data, "__cuda_array_interface__"):
        return make(backend.entered(backend.cupy().asarray(data, dtype=wanted)))  # type: ignore[no-any-return]
    return tensor(data, dtype=dtype, device=device)


asarray = as_tensor


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor over a NumPy array's memory, shape and dtype. Errors: TypeError for another type."""
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"expected np.ndarray (got {type(array).__name__}); use gradhook.as_tensor for other "
            f"data"
        )
    dtypes.of(array.dtype)
    return make(np.asarray(array))  # type: ignore[no-any-return]


def from_cupy(array: Any) -> Tensor:
    """A tensor over a CuPy array's memory, shape and dtype. Errors: TypeError for anything else."""
    if not backend.is_cupy(array):
        raise TypeError(
            f"expected cupy.ndarray (got {type(array).__name__}); use gradhook.as_tensor for "
            f"other data"
        )
    dtypes.of(array.dtype)
    return make(backend.entered(array))  # type: ignore[no-any-return]


def from_dlpack(source: Any) -> Tensor:
    """A tensor over memory, shape, dtype of what has `__dlpack__`. Errors: TypeError for others."""
    if not hasattr(source, "__dlpack__"):
        raise TypeError(
            f"from_dlpack: expected an object with __dlpack__, found {type(source).__name__}"
        )
    kind = source.__dlpack_device__()[0] if hasattr(source, "__dlpack_device__") else 1
    return as_tensor(np.from_dlpack(source) if kind == 1 else backend.cupy().from_dlpack(source))


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], Sequence):
        size = tuple(size[0])
    shape = tuple(int(n) for n in size)
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    return shape


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of one value. size: ints; dtype: by the value when None. Result: shape `size`."""
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    d = dtypes.raw(dtype) or dtypes.of_scalar(value)
    shape = _shape((size,) if isinstance(size, int) else tuple(size))
    return _created(device, requires_grad, "full", shape, value, d)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of shape `size` (ints or one sequence); dtype: the default dtype when None."""
    return _created(device, requires_grad, "zeros", _shape(size), _dtype(dtype))


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of shape `size` (ints or one sequence); dtype: the default dtype when None."""
    return _created(device, requires_grad, "ones", _shape(size), _dtype(dtype))


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory of shape `size` (ints or one sequence). dtype: the default when None."""
    return _created(device, requires_grad, "empty", _shape(size), _dtype(dtype))


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, ... below end. dtype: int64 when all are ints, else the default
    dtype. Result: 1-d. Errors: RuntimeError, ValueError for a step of 0 or away from end."""
    if end is None:
        start, end = 0, start
    start, end, step = (v.item() if isinstance(v, Tensor) else v for v in (start, end, step))
    if not step or math.isnan(step):
        raise RuntimeError("step must be nonzero")
    if not math.isfinite(end - start):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}"
        )
    whole = all(isinstance(v, int) for v in (start, end, step))
    d = dtypes.raw(dtype) or (np.dtype("i8") if whole else dtypes.get_default_dtype().np)
    if d == np.dtype("i8"):  # PyTorch: whole limits for whole numbers
        start, end, step = int(start), int(end), int(step)
        if step == 0:  # PyTorch: ValueError here
            raise ValueError("step must be nonzero")
    count = int(np.ceil((end - start) / step))
    exact = backend.call_on(_where(device), "arange", count, dtype="i8" if whole else "f8")
    with backend.place(exact):
        return _wrapped(make((exact * step + start).astype(d)), requires_grad)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """(steps,) from start to end, any dtype. Errors: RuntimeError, steps < 0; TypeError, no int."""
    if not isinstance(steps, (int, np.integer)):
        raise TypeError(f"linspace(): steps must be an int, found {type(steps).__name__}")
    start, end = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    d = dtypes.raw(dtype) or dtypes.get_default_dtype().np
    if d.kind in "iu":
        start, end = int(start), int(end)
    if isinstance(start, complex) or isinstance(end, complex):
        d = dtypes.complex_of(d)
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, found {steps}")
    return _finished(np.linspace(start, end, int(steps)).astype(d), device, requires_grad)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal, (n, m or n) of dtype. Errors: RuntimeError for a negative size."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n must be greater or equal to 0, got {n if n < 0 else m}")
    return _created(device, requires_grad, "eye", n, m, 0, _dtype(dtype))


def rand(
    *size: Any, generator: random.Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform in [0, 1), of shape `size` (ints or one sequence), of a floating dtype."""
    source, where, like = _source(generator, device)
    drawn = source.random(_shape(size), _dtype(dtype), like=like)
    return _finished(drawn, where, requires_grad)


def randn(
    *size: Any, generator: random.Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Standard normal. size: ints or one sequence; a complex dtype has variance 1 over both
    parts. Result: shape `size`.
    """
    source, where, like = _source(generator, device)
    drawn = source.normal(_shape(size), _dtype(dtype), like=like)
    return _finished(drawn, where, requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, generator: random.Generator | None = None,
    dtype: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers in [low, high), [0, high) of `randint(high, size)`, int64. Errors: RuntimeError."""
    if size is None:
        low, high, size = 0, low, high
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    source, where, like = _source(generator, device)
    array = source.integers(int(low), int(high), _shape(tuple(size)), like=like)
    return _finished(array.astype(dtypes.raw(dtype) or np.dtype("i8")), where, requires_grad)


def randperm(
    n: int, *, generator: random.Generator | None = None, dtype: Any = None, device: Any = None
) -> Tensor:
    """The numbers 0..n-1 in random order. dtype: int64 when None. Result: 1-d."""
    source, where, like = _source(generator, device)
    array = source.permutation(n, like=like)
    return _finished(array.astype(dtypes.raw(dtype) or np.dtype("i8")), where, False)


def _source(generator: random.Generator | None, device: Any) -> tuple[Any, Any, Any]:
    """The generator, where the result goes, and where to draw: a given generator on its device."""
    where = _where(device)
    return (generator, where, None) if generator else (random.default_generator, where, where)


def _like(input: Tensor, dtype: Any, device: Any) -> dict[str, Any]:
    return {
        "dtype": input.dtype if dtype is None else dtype,
        "device": input.device if device is None else device,
    }


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of the shape, dtype and device of input."""
    return zeros(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones of the shape, dtype and device of input."""
    return ones(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Uninitialised memory of the shape, dtype and device of input."""
    return empty(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value in the shape, dtype and device of input."""
    return full(
        tuple(input.shape), fill_value, requires_grad=requires_grad, **_like(input, dtype, device)
    )


def rand_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Uniform numbers in the shape, dtype and device of input."""
    return rand(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def randn_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Standard normal numbers in the shape, dtype and device of input."""
    return randn(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def randint_like(
    input: Tensor,
    low: int,
    high: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers in the shape, dtype and device of input."""
    low, high = (0, low) if high is None else (low, high)
    return randint(
        low, high, input.shape, requires_grad=requires_grad, **_like(input, dtype, device)
    )


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_cupy", "from_dlpack",
    "from_numpy", "full", "full_like", "is_tensor", "linspace", "ones", "ones_like", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "tensor", "zeros",
    "zeros_like",
]  # fmt: skip
