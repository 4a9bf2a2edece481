"""Parameter and Buffer: tensors that a Module registers when they are assigned to it; and their
uninitialized forms, whose shape the first call of a lazy module finds.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, NoReturn, Self

from gradhook import backend, dtypes
from gradhook.autograd.binding import cell_of, make
from gradhook.autograd.fields import TensorFields
from gradhook.autograd.graph import new
from gradhook.creation import empty, tensor
from gradhook.size import Size
from gradhook.tensor import Tensor


def _alias(kind: type, data: Tensor) -> Any:
    """A tensor of class `kind` over data's array, without history; a write to one is a write to the
    other.
    """
    t: Any = new(kind)
    t._a = data._a
    t._v = cell_of(data)
    t._node = None
    t._nr = 0
    t._view = None
    t._slot = None
    return t


def _checked(kind: type, data: Any) -> Tensor:
    if data is None:
        return tensor([])
    if not isinstance(data, Tensor):
        raise TypeError(
            f"{kind.__name__} data must be a Tensor, found {type(data).__name__}; make one with "
            "gradhook.tensor(...)"
        )
    return data


class Parameter(Tensor):
    """A tensor that is a Module's parameter when assigned to an attribute of one.

    data: a Tensor, its array is shared (None: an empty one). requires_grad: whether backward fills
    `.grad`; data must then be floating point or complex. Source: torch.nn.Parameter.
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        self = _alias(cls, _checked(cls, data))
        return self.requires_grad_(requires_grad) if requires_grad else self

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        """Made by __new__."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A parameter of its own with a copy of the values; `.grad` and tensor hooks stay behind,
        as in PyTorch.
        """
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
            found.__dict__.update(
                {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k[0] != "_"}
            )
        return found

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that is a Module's buffer when assigned to an attribute of one.

    data: a Tensor, its array is shared. persistent: whether it is in the module's state_dict.
    Source: torch.nn.Buffer.
    """

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        self = _alias(cls, _checked(cls, data))
        self.persistent = persistent
        return self

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        """Made by __new__."""


class UninitializedTensorMixin:
    """A parameter or buffer of a dtype and on a device, but of no shape yet.

    It can be moved, cast, copied and materialized; any other use raises ValueError, reading its
    shape RuntimeError. `cls_to_become`: its class once it is materialized.
    Source: torch.nn.parameter.UninitializedTensorMixin.
    """

    __slots__ = ()
    cls_to_become: type

    @property
    def _a(self) -> NoReturn:  # every operation reads it first
        used_in = sys._getframe(1).f_code.co_name
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {used_in}. This error happens when "
            "you are using a `LazyModule` or explicitly manipulating `gradhook.nn.parameter."
            f"{type(self).__name__}` objects. When using LazyModules Call `forward` with a dummy "
            "batch to initialize the parameters before calling gradhook functions"
        )

    @property
    def data(self) -> Tensor:
        """An empty Tensor of the dtype and on the device."""
        made: Tensor = make(_array.__get__(self))
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        kind, self.__class__ = type(self), self.cls_to_become
        try:
            self.data = value.data if is_lazy(value) else value
        finally:
            self.__class__ = kind

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it a shape: from now on it is a `cls_to_become` of uninitialized values.

        device, dtype: None for those it has. Hooks and `.grad` stay.
        """
        data = self.data
        made = empty(
            tuple(shape),
            device=data.device if device is None else device,
            dtype=data.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become
        self.data = made

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether backward will fill its gradient."""
        kind, self.__class__ = type(self), self.cls_to_become
        try:
            self.requires_grad_(requires_grad)
        finally:
            self.__class__ = kind
        return self

    @property
    def shape(self) -> Size:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def size(self, dim: int | None = None) -> Any:
        """Errors: RuntimeError, there is none yet."""
        return self.shape

    @property
    def dtype(self) -> dtypes.dtype:
        return self.data.dtype

    @property
    def device(self) -> backend.device:
        return self.data.device

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def get_device(self) -> int:
        """As Tensor.get_device."""
        return self.data.get_device()

    def is_floating_point(self) -> bool:
        """As Tensor.is_floating_point."""
        return self.data.is_floating_point()

    def is_complex(self) -> bool:
        """As Tensor.is_complex."""
        return self.data.is_complex()

    def _remade(self, data: Tensor) -> Any:
        made: Any = type(self)(self.requires_grad, data.device, data.dtype)  # type: ignore[attr-defined,call-arg]
        return made

    def share_memory_(self) -> NoReturn:
        """Errors: RuntimeError, there is no memory to share."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        made = (self.requires_grad, self.device, self.dtype)  # type: ignore[attr-defined]
        return type(self), made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = self._remade(self.data)
        return found


def _moving(name: str) -> Any:
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._remade(getattr(self.data, name)(*args, **kwargs))

    moved.__name__ = name
    moved.__doc__ = f"An uninitialized one after `{name}`."
    return moved


for _name in ("to", "cpu", "cuda", "half", "float", "double", "int", "long"):
    setattr(UninitializedTensorMixin, _name, _moving(_name))

_array: Any = TensorFields.__dict__["_a"]  # the slot that _a hides


def is_lazy(param: Any) -> bool:
    """Whether it is a parameter or buffer that has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter without a shape yet; materialize(shape) makes it a Parameter.

    Source: torch.nn.parameter.UninitializedParameter.
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        self = Parameter(empty((0,), device=device, dtype=dtype), requires_grad)
        self.__class__ = cls
        return self

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Made by __new__."""


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A Buffer without a shape yet; materialize(shape) makes it a Buffer.

    Source: torch.nn.parameter.UninitializedBuffer.
    """

    cls_to_become = Buffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        self = Buffer(empty((0,), device=device, dtype=dtype), persistent=persistent)
        self.__class__ = cls
        return self.requires_grad_() if requires_grad else self

    def __init__(
        self,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> None:
        """Made by __new__."""

    def _remade(self, data: Tensor) -> Any:
        return type(self)(self.requires_grad, data.device, data.dtype, self.persistent)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype, self.persistent)
