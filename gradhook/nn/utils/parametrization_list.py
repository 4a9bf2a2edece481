"""ParametrizationList: the originals of a parametrized tensor and what computes it from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradhook.modes import no_grad
from gradhook.nn.container import ModuleList
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor


def put_tensor(module: Module, name: str, value: Any) -> None:
    """Register a Parameter as parameter, any other tensor as buffer."""
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def move_to(tensor: Tensor, value: Tensor) -> None:
    """Let a tensor have another's memory: it stays the same object, which an optimizer knows."""
    if value is not tensor:
        tensor.data = value


class ParametrizationList(ModuleList):
    """The modules that make a parametrized tensor, the first registered first, and its originals:
    `original`, or `original0`, `original1`, ... where the first one's right_inverse returns a
    sequence. register_parametrization makes it; it is `module.parametrizations[name]`.

    modules: at least one; original: the Parameter or buffer; unsafe: whether they may change its
    shape and dtype. Errors: ValueError with PyTorch's texts; `original` is then as it was.
    Source: torch.nn.utils.parametrize.ParametrizationList.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype, before = original.shape, original.dtype, original.detach()
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        try:
            if isinstance(new, Tensor):
                self._take_original(original, new)
            else:
                self._take_originals(original, new)
            if not unsafe:
                self._check_result(shape, dtype)
        except BaseException:
            if self.is_tensor and new is not original:
                move_to(original, before)
            raise

    def _take_original(self, original: Tensor, new: Tensor) -> None:
        for what in ("dtype", "device"):
            if getattr(original, what) != getattr(new, what):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {getattr(original, what)}\n"
                    f"right_inverse(original).{what}: {getattr(new, what)}"
                )
        move_to(original, new)
        put_tensor(self, "original", original)

    def _take_originals(self, original: Tensor, new: Sequence[Any]) -> None:
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            put_tensor(self, f"original{i}", tensor)

    def _check_result(self, shape: Any, dtype: Any) -> None:
        result = self()
        if not isinstance(result, Tensor):
            raise ValueError(
                f"A parametrization must return a tensor. Got {type(result).__name__}."
            )
        for what, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, "
                    f"unless `unsafe` flag is enabled.\nunparametrized {what}: {before}\n"
                    f"parametrized {what}: {after}"
                )

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the tensor becomes value: the right_inverse of each module,
        the last registered first.

        Errors: RuntimeError for a module without one; ValueError for a result that does not fit the
        originals, which stay then.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                self._set_original(value)
            else:
                self._set_originals(value)

    def _set_original(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` "
                f"has dtype {self.original.dtype}"
            )
        move_to(self.original, value)

    def _set_originals(self, value: Any) -> None:
        if not isinstance(value, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
            )
        if len(value) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got "
                f"a sequence of length {len(value)}."
            )
        originals = self._originals()
        for i, (tensor, original) in enumerate(zip(value, originals, strict=True)):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got element {i} of type "
                    f"{type(tensor).__name__}."
                )
            if tensor.dtype != original.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while "
                    f"`original{i}` has dtype {original.dtype}"
                )
        for tensor, original in zip(value, originals, strict=True):
            move_to(original, tensor)

    def sharing(self) -> ParametrizationList:
        """Another list of the same modules and originals."""
        made = ParametrizationList.__new__(ParametrizationList)
        ModuleList.__init__(made, self)
        made.unsafe, made.is_tensor, made.ntensors = self.unsafe, self.is_tensor, self.ntensors
        for name, tensor in [*self._parameters.items(), *self._buffers.items()]:
            put_tensor(made, name, tensor)
        return made

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def forward(self) -> Any:
        """The parametrized tensor."""
        first, *rest = self
        result = first(*self._originals())
        for module in rest:
            result = module(result)
        return result
