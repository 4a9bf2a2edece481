"""Moving and casting a module's tensors, training mode, and what else changes all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from gradhook import backend, dtypes
from gradhook.creation import empty_like
from gradhook.modes import no_grad
from gradhook.nn.module_walk import ModuleWalk
from gradhook.tensor import Tensor


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """(device, dtype) of a `to` call: to(device), to(dtype), to(device, dtype), to(tensor), or by
    keyword.
    """
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    other = kwargs.pop("tensor", None)
    unknown = set(kwargs) - {"non_blocking", "copy", "memory_format"}
    if unknown:
        raise TypeError(f"to() received an invalid keyword argument {sorted(unknown)[0]!r}")
    for value in args:
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, Tensor):
            other = value
        elif isinstance(value, (str, int, backend.device)):
            device = value
        else:
            dtype = value
    if other is not None:
        device, dtype = other.device, other.dtype
    return device, None if dtype is None else dtypes.of(dtype)


class ModuleCast(ModuleWalk):
    """The half of Module that changes all its tensors at once."""

    training: bool

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every parameter's data, every gradient and every buffer by fn of it; Parameter
        objects stay.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                grad = parameter.grad
                made = fn(parameter)
                if made is not parameter:  # else it was written in place, or is as it should be
                    parameter.data = made
                if grad is not None:
                    parameter.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device and cast floating and complex tensors to a dtype: to(device), to(dtype),
        to(tensor), both.

        Errors: TypeError for a dtype that is neither floating nor complex. Returns self.
        """
        device, dtype = parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def moved(t: Tensor) -> Tensor:
            cast = dtype is not None and (t.is_floating_point() or t.is_complex())
            options = {"device": device, "dtype": dtype if cast else None}
            options = {k: v for k, v in options.items() if v is not None}
            return t.to(**options) if options else t

        return self._apply(moved)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move all parameters and buffers to a device without their values, which are then
        arbitrary. recurse: those of the modules below, too. Returns self.
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def _cast(self, dtype: dtypes.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype=dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32."""
        return self._cast(dtypes.float32)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64."""
        return self._cast(dtypes.float64)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16."""
        return self._cast(dtypes.float16)

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to a dtype."""
        dtype = dtypes.of(dst_type)
        return self._apply(lambda t: t.to(dtype=dtype))

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.to(device="cpu"))

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a CUDA device (the current one).

        Errors: DeviceError without CUDA.
        """
        where = "cuda" if device is None else backend.device(device)
        return self._apply(lambda t: t.to(device=where))

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below.

        Errors: ValueError when mode is no bool. Returns self.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode: dropout is off, batch norm uses its running statistics."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether backward fills the parameters' gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the parameters' gradients, or fill them with zeros."""
        parameters = [p for m in self.modules() for p in m._parameters.values() if p is not None]
        for parameter in parameters:
            slot = parameter._slot
            if slot is None or slot.grad is None:
                continue
            if set_to_none:
                slot.grad = None
            else:
                grad = slot.grad
                parameter.grad = grad.detach()
                with no_grad():
                    parameter.grad.zero_()

    def share_memory(self) -> Self:
        """As PyTorch's, for arrays that every thread sees already: returns self."""
        return self
