"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

import copy
from typing import Any

from gradhook.autograd.binding import cell_of
from gradhook.autograd.graph import new
from gradhook.creation import tensor
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
