"""Tensors, as PyTorch's pickles make them: what its `_rebuild_*` functions mean here, checked."""

from __future__ import annotations

from types import MethodType
from typing import Any

from gradhook.autograd.binding import make
from gradhook.devices import device
from gradhook.dtypes import dtype, is_differentiable
from gradhook.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
    is_lazy,
)
from gradhook.serialization.elements import BY_NAME
from gradhook.serialization.errors import LoadError, shown
from gradhook.serialization.layout import checked_sizes, view_of
from gradhook.serialization.storages import Storages, StoredArray, restored
from gradhook.serialization.values import Values
from gradhook.size import Size
from gradhook.tensor import Tensor

TENSOR = 700  # bytes of a Tensor, its array and its place in containers
CHANGES = {"conj": "conj", "neg": "negative"}  # PyTorch's lazy flags, and what carries them out
CLASSES = (Tensor, Parameter, Buffer)


class Rebuilding:
    """The functions that make tensors of one file's storages.

    safe: only attributes and classes that run no code are taken.
    """

    def __init__(self, storages: Storages, values: Values, safe: bool = True) -> None:
        self.storages, self.values, self.safe = storages, values, safe

    # ---- tensors ---------------------------------------------------------------------------
    def tensor_v2(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any,
        hooks: Any,
        metadata: Any = None,
    ) -> Any:
        """torch._utils._rebuild_tensor_v2."""
        if type(storage) is not StoredArray or storage.element is None:
            raise LoadError(f"a tensor is made of {shown(storage)}, expected a storage")
        array = self._array(storage, storage.element.name, (offset, size, stride), metadata)
        return self._required(make(array), requires_grad)

    def tensor(self, storage: Any, offset: Any, size: Any, stride: Any) -> Any:
        """torch._utils._rebuild_tensor, of checkpoints from before 2017."""
        return self.tensor_v2(storage, offset, size, stride, False, None)

    def tensor_v3(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any,
        hooks: Any,
        kind: Any,
        metadata: Any = None,
    ) -> Any:
        """torch._utils._rebuild_tensor_v3: of bytes and a dtype."""
        if type(storage) is not StoredArray or type(kind) is not dtype:
            raise LoadError(f"a tensor is made of {shown(storage)} and {shown(kind)}")
        array = self._array(storage, kind.name, (offset, size, stride), metadata)
        return self._required(make(array), requires_grad)

    def _array(self, storage: StoredArray, name: str, place: Any, metadata: Any) -> Any:
        self.values.budget.spend(TENSOR)
        changes: list[str] = []
        if metadata is not None:
            if type(metadata) is not dict or not metadata.keys() <= CHANGES.keys():
                raise LoadError(f"a tensor has {shown(metadata)}, expected the flags conj and neg")
            changes = [CHANGES[flag] for flag, on in metadata.items() if on is True]
        if changes and not is_differentiable(BY_NAME[name].held.np):
            raise LoadError(f"a tensor of {name} is conjugated or negated")
        return view_of(self.storages.flat(storage, BY_NAME[name], *changes), *place)

    def _required(self, made: Any, requires_grad: Any) -> Any:
        if type(requires_grad) is not bool:
            raise LoadError(f"a tensor's requires_grad is {shown(requires_grad)}")
        if requires_grad and not is_differentiable(made._a.dtype):
            raise LoadError(f"a tensor of {made.dtype} requires grad, only floating ones can")
        return made.requires_grad_() if requires_grad else made

    # ---- classes ---------------------------------------------------------------------------
    def parameter(self, data: Any, requires_grad: Any = True, hooks: Any = None) -> Any:
        """torch._utils._rebuild_parameter, and torch.nn.Parameter itself."""
        if not isinstance(data, Tensor) or is_lazy(data):
            raise LoadError(f"a Parameter is made of {shown(data)}, expected a Tensor")
        self.values.budget.spend(TENSOR)
        return self._required(Parameter(data.detach(), False), requires_grad)

    def parameter_with_state(self, data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
        """torch._utils._rebuild_parameter_with_state."""
        made = self.parameter(data, requires_grad)
        self.set_attributes(made, state)
        return made

    def from_type(self, function: Any, kind: Any, args: Any, state: Any) -> Any:
        """torch._tensor._rebuild_from_type_v2: a tensor of a subclass, or with attributes."""
        if type(function) is not MethodType or type(args) is not tuple:
            raise LoadError(f"a tensor is made by {shown(function)} of {shown(args)}")
        if function not in (self.tensor_v2, self.tensor_v3):
            raise LoadError(f"a tensor is made by {shown(function)}")
        known = issubclass(kind, Tensor) if isinstance(kind, type) else False
        if not known or (self.safe and kind not in CLASSES):
            raise LoadError(f"a tensor is of {shown(kind)}, expected a class of tensors")
        try:
            made = function(*args)
        except TypeError as error:
            raise LoadError(f"a tensor is made with wrong arguments: {error}") from None
        known = type(state) is dict
        if kind is Buffer or (known and kind is Tensor and state.get("_is_buffer") is True):
            persistent = state.get("persistent", True) if known else True
            buffer = Buffer(made.detach(), persistent=persistent is True)
            made = buffer.requires_grad_() if made.requires_grad else buffer
        elif kind is not Tensor:
            made = made.as_subclass(kind)
        self.set_attributes(made, state)
        return made

    def set_attributes(self, made: Any, state: Any) -> None:
        """Give a tensor its Python attributes, but for private ones of PyTorch's."""
        if type(state) is tuple and len(state) == 2:
            state = state[0]  # the other half is of slots
        if state is None:
            return
        if type(state) is not dict or any(type(k) is not str for k in state):
            raise LoadError(f"the attributes of a tensor are {shown(state)}")
        state = {k: v for k, v in state.items() if k[:1] != "_" and k != "persistent"}
        made.__dict__.update(self.values.attributes(type(made), state) if self.safe else state)

    def uninitialized_parameter(
        self, requires_grad: Any = True, where: Any = None, kind: Any = None
    ) -> Any:
        """torch.nn.UninitializedParameter."""
        return UninitializedParameter(*self._uninitialized(requires_grad, where, kind))

    def uninitialized_buffer(
        self, requires_grad: Any = False, where: Any = None, kind: Any = None, keep: Any = True
    ) -> Any:
        """torch.nn.UninitializedBuffer."""
        grad, place, held = self._uninitialized(requires_grad, where, kind)
        return UninitializedBuffer(grad, place, held, persistent=keep is True)

    def _uninitialized(self, requires_grad: Any, where: Any, kind: Any) -> tuple[Any, ...]:
        if type(requires_grad) is not bool or type(where) not in (device, type(None)):
            raise LoadError("an uninitialized parameter is made of other things than a device")
        if type(kind) not in (dtype, type(None)):
            raise LoadError(f"an uninitialized parameter has the dtype {shown(kind)}")
        if requires_grad and kind is not None and not is_differentiable(kind.np):
            raise LoadError(f"an uninitialized parameter of {kind} requires grad")
        self.values.budget.spend(TENSOR)
        location = "cpu" if where is None else str(where)
        return requires_grad, self.storages.place(location), kind

    # ---- what describes tensors ------------------------------------------------------------
    def size(self, sizes: Any = ()) -> Size:
        """torch.Size."""
        return Size(checked_sizes(sizes, "size"))

    def device(self, kind: Any, index: Any = None) -> device:
        """torch.device."""
        if type(kind) is not str or type(index) not in (int, type(None)):
            raise LoadError(f"a device is {shown(kind)} and {shown(index)}")
        if index is not None and not 0 <= index < 1 << 15:
            raise LoadError(f"a device has the index {shown(index)}")
        return restored(kind if index is None else f"{kind}:{index}")
