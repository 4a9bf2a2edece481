"""The pickle of a checkpoint: tensors by PyTorch's names for them, their memory apart."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from io import BytesIO
from typing import Any, NamedTuple

from gradhook.autograd.views import edge_of
from gradhook.devices import device
from gradhook.dtypes import dtype
from gradhook.hooks.pickling import warn_if_has_hooks
from gradhook.nn.parameter import Buffer, Parameter, is_lazy
from gradhook.serialization.elements import BY_NUMPY
from gradhook.serialization.layout import Place, place_of
from gradhook.serialization.names import OBJECTS
from gradhook.size import Size
from gradhook.tensor import Tensor


class Named:
    """A global of PyTorch's, written by its name without importing it."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        """Pickle calls nothing while it writes."""
        raise TypeError(f"{self.module}.{self.name} is a name to be written, no function")


NAMES: dict[Any, Named] = {found: Named(*name) for name, found in OBJECTS.items()}
TENSOR = Named("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Named("torch._utils", "_rebuild_parameter")
WITH_STATE = Named("torch._utils", "_rebuild_parameter_with_state")
FROM_TYPE = Named("torch._tensor", "_rebuild_from_type_v2")


class _StorageOf(NamedTuple):
    """Stands in a pickle for the memory of a tensor."""

    place: Place
    location: str


class CheckpointPickler(pickle._Pickler):
    """Pickles one object. storages: the memory that its tensors lie in, by key.

    The pickler of Python's own text: the one in C looks every global up.
    """

    def __init__(self, file: BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[Any] = []
        self._keys: dict[int, int] = {}
        self._places: list[Place] = []  # keeps the owners alive: they are known by their id

    def persistent_id(self, obj: Any) -> Any:
        """PyTorch's id of a storage; None for anything else."""
        if type(obj) is not _StorageOf:
            return None
        place = obj.place
        key = self._keys.get(id(place.owner))
        if key is None:
            key = self._keys[id(place.owner)] = len(self.storages)
            self.storages.append(place.flat)
            self._places.append(place)
        kind = Named("torch", BY_NUMPY[place.flat.dtype].storage)
        kind = self._kinds.setdefault(kind.name, kind)
        return "storage", kind, str(key), obj.location, int(place.flat.size)

    _kinds: dict[str, Named] = {}  # noqa: RUF012 - shared: a name is written once, then noted

    def reducer_override(self, obj: Any) -> Any:
        """How tensors, and what describes them, are written."""
        kind = type(obj)
        if isinstance(obj, Tensor):
            return _reduced(obj)
        if kind is Size:
            return NAMES[Size], (tuple(obj),)
        if kind is device:
            return NAMES[device], (obj.type,) if obj.index is None else (obj.type, obj.index)
        if kind is Named or kind is dtype or (isinstance(obj, type) and obj in NAMES):
            return "a global"
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a name: PyTorch's for what it has, else Python's."""
        named = obj if type(obj) is Named else None
        if type(obj) is dtype or isinstance(obj, type):
            named = NAMES.get(obj)
        if named is None:
            super().save_global(obj, name)  # type: ignore[misc]
        elif self.proto >= 4:  # type: ignore[attr-defined]
            self.save(named.module)  # type: ignore[attr-defined]
            self.save(named.name)  # type: ignore[attr-defined]
            self.write(pickle.STACK_GLOBAL)  # type: ignore[attr-defined]
            self.memoize(obj)  # type: ignore[attr-defined]
        else:
            self.write(pickle.GLOBAL + f"{named.module}\n{named.name}\n".encode())  # type: ignore[attr-defined]
            self.memoize(obj)  # type: ignore[attr-defined]


def _reduced(t: Any) -> tuple[Any, ...]:
    """The call that makes a tensor again, as PyTorch writes it: one with history becomes a leaf."""
    kind = type(t)
    if is_lazy(t):
        requires_grad, where, *rest = t.__reduce_ex__(2)[1]
        return NAMES.get(kind, kind), (requires_grad, where, *rest)
    warn_if_has_hooks(t)
    state = {k: v for k, v in t.__dict__.items() if k[0] != "_"}
    requires_grad = edge_of(t) is not None
    if kind is Parameter:
        data = t.detach()
        if state:
            return WITH_STATE, (data, requires_grad, OrderedDict(), state)
        return PARAMETER, (data, requires_grad, OrderedDict())
    place = place_of(t._a)
    args: tuple[Any, ...] = (
        *(_StorageOf(place, str(t.device)), place.offset, place.size, place.stride),
        *(requires_grad, OrderedDict()),
    )
    if kind is Tensor and not state:
        return TENSOR, args
    if kind is Buffer:  # PyTorch's are tensors with a mark
        kind, state["_is_buffer"] = Tensor, True
    return FROM_TYPE, (TENSOR, NAMES.get(kind, kind), args, state)


def pickled(obj: Any, protocol: int) -> tuple[bytes, list[Any]]:
    """The pickle of an object, and the flat arrays of its storages, numbered from 0."""
    file = BytesIO()
    pickler = CheckpointPickler(file, protocol)
    pickler.dump(obj)
    return file.getvalue(), pickler.storages
