"""The table of names: what PyTorch's pickles call things, and what they are here."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook import dtypes
from gradhook.devices import device
from gradhook.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)
from gradhook.serialization.elements import ELEMENTS
from gradhook.serialization.errors import LoadError, shown
from gradhook.serialization.rebuilding import Rebuilding
from gradhook.serialization.storages import StorageKind
from gradhook.serialization.values import FACTORIES, Values
from gradhook.size import Size
from gradhook.tensor import Tensor

Name = tuple[str, str]

# Both ways: objects of gradhook's and what PyTorch calls them.
OBJECTS: dict[Name, Any] = {
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch", "Tensor"): Tensor,
    ("torch.nn.parameter", "Parameter"): Parameter,
    ("torch.nn.parameter", "Buffer"): Buffer,
    ("torch.nn.parameter", "UninitializedParameter"): UninitializedParameter,
    ("torch.nn.parameter", "UninitializedBuffer"): UninitializedBuffer,
    **{("torch", d.name): d for d in dtypes.ALL},
}
STORAGES: dict[Name, Any] = {
    **{("torch", e.storage): StorageKind(e) for e in ELEMENTS},
    ("torch.storage", "UntypedStorage"): StorageKind(None),
}
BUILTINS = ("builtins", "__builtin__")
NUMPY = ("numpy._core", "numpy.core")
FOREIGN = ("torch", "torch.storage", "torch._utils", "torch._tensor", "torch.serialization")


class Names:
    """The names of one file: `objects` what a name stands for, `calls` what may be called and the
    function that does it.
    """

    def __init__(self, values: Values, rebuilding: Rebuilding) -> None:
        made, v = rebuilding, values
        functions: dict[Name, Callable[..., Any]] = {
            ("torch._utils", "_rebuild_tensor"): made.tensor,
            ("torch._utils", "_rebuild_tensor_v2"): made.tensor_v2,
            ("torch._utils", "_rebuild_tensor_v3"): made.tensor_v3,
            ("torch._utils", "_rebuild_parameter"): made.parameter,
            ("torch._utils", "_rebuild_parameter_with_state"): made.parameter_with_state,
            ("torch._tensor", "_rebuild_from_type_v2"): made.from_type,
            ("_codecs", "encode"): v.encode,
            **{(f"{m}.multiarray", "_reconstruct"): v.numpy_empty for m in NUMPY},
            **{(f"{m}.multiarray", "scalar"): v.numpy_scalar for m in NUMPY},
            **{(f"{m}.numeric", "_frombuffer"): v.numpy_array for m in NUMPY},
        }
        self.objects: dict[Name, Any] = {**OBJECTS, **STORAGES, **PYTHON, **functions}
        self.calls: dict[Any, Callable[..., Any]] = {
            **{f: f for f in functions.values()},
            Size: made.size,
            device: made.device,
            Parameter: made.parameter,
            UninitializedParameter: made.uninitialized_parameter,
            UninitializedBuffer: made.uninitialized_buffer,
            np.dtype: v.numpy_dtype,
            collections.OrderedDict: v.ordered_dict,
            collections.Counter: v.counter,
            collections.defaultdict: v.default_dict,
            collections.deque: v.make_deque,
            **{kind: getattr(v, f"make_{kind.__name__}") for kind in CALLED},
        }

    def find(self, module: str, name: str) -> Any:
        """What a file of weights names. Errors: LoadError for anything else."""
        found = self.objects.get((module, name), self)
        if found is self:
            what = f"{shown(module)[1:-1]}.{shown(name)[1:-1]}"
            if module in FOREIGN:
                raise LoadError(
                    f"it has {what}, which gradhook has no counterpart of; in PyTorch, save dense "
                    "tensors of a dtype that gradhook has"
                )
            raise LoadError(
                f"Weights only load failed: the file names {what}, which is no part of a "
                "state_dict. A pickle may run any code: if you trust where the file comes from, "
                "load it with weights_only=False, else save a state_dict"
            )
        return found


CALLED: tuple[type, ...] = (bytes, bytearray, complex, frozenset, range, set, slice)
PYTHON: dict[Name, Any] = {
    **{(m, kind.__name__): kind for kind in (*CALLED, *FACTORIES) for m in BUILTINS},
    **{
        ("collections", kind.__name__): kind
        for kind in (
            *(collections.Counter, collections.OrderedDict),
            *(collections.defaultdict, collections.deque),
        )
    },
    # protocol 2 has Python 2's names
    ("__builtin__", "xrange"): range,
    ("__builtin__", "long"): int,
    ("__builtin__", "unicode"): str,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
}
