"""save and load: objects that hold Tensors, in a file.

The file is a pickle. Tensors over the very same array, as a tied weight has them in a state_dict,
come back over one array; views of a part come back with memory of their own. Hooks of modules are
saved with them, hooks of tensors are not (hooks/pickling.py).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import nullcontext
from os import PathLike, fspath
from typing import IO, Any

from gradhook import backend
from gradhook.tensor import _unpickled

# What a file of weights may name: no callable here has side effects.
SAFE: dict[str, frozenset[str]] = {
    "builtins": frozenset(("bytearray", "complex", "frozenset", "range", "set", "slice")),
    "collections": frozenset(("Counter", "OrderedDict", "defaultdict", "deque")),
    "numpy": frozenset(("dtype", "ndarray")),
    "numpy._core.multiarray": frozenset(("_reconstruct", "scalar")),
    "numpy._core.numeric": frozenset(("_frombuffer",)),
    "numpy.core.multiarray": frozenset(("_reconstruct", "scalar")),
    "numpy.core.numeric": frozenset(("_frombuffer",)),
    "gradhook.devices": frozenset(("device",)),
    "gradhook.dtypes": frozenset(("of",)),
    "gradhook.size": frozenset(("Size",)),
    "gradhook.tensor": frozenset(("Tensor", "_unpickled")),
    "gradhook.nn.parameter": frozenset(
        ("Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter")
    ),
}
Location = str | int | backend.device | dict[str, str] | Callable[[str], Any] | None


class _Reader(pickle.Unpickler):
    """Unpickles for load: maps devices and, with weights_only, names nothing but SAFE."""

    def __init__(self, file: IO[bytes], map_location: Location, weights_only: bool) -> None:
        super().__init__(file)
        self.map_location = map_location
        self.weights_only = weights_only

    def find_class(self, module: str, name: str) -> Any:
        if self.weights_only and name not in SAFE.get(module, ()):
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file names {module}.{name}, which is no part of a "
                "state_dict. A pickle may run any code: if you trust where the file comes from, "
                "load it with weights_only=False"
            )
        found = super().find_class(module, name)
        return self._tensor if found is _unpickled else found

    def _tensor(self, cls: type, host: Any, device: str, *rest: Any) -> Any:
        where: Any = self.map_location
        if isinstance(where, dict):
            where = where.get(device, device)
        elif callable(where) and not isinstance(where, backend.device):
            where = where(device)
        where = device if where is None else str(backend.device(where))
        return _unpickled(cls, host, where, *rest)


def _opened(f: Any, mode: str) -> Any:
    return open(fspath(f), mode) if isinstance(f, str | PathLike) else nullcontext(f)


def save(obj: Any, f: Any, *, pickle_protocol: int = pickle.DEFAULT_PROTOCOL) -> None:
    """Write an object to a file: a state_dict, a Module, or any structure with Tensors in it.

    f: a path, or a file open for writing bytes. CUDA tensors are copied to the host (counted by
    gradhook.profiler.transfers). Errors: RuntimeError for a tensor with history, what pickle raises
    for what it cannot write. Source of the name: torch.save, whose format is another.
    """
    with _opened(f, "wb") as file:
        pickle.dump(obj, file, pickle_protocol)


def load(f: Any, map_location: Location = None, *, weights_only: bool = True) -> Any:
    """Read what save wrote.

    f: a path, or a seekable file open for reading bytes. map_location: the device tensors go to, a
    dict {"cuda:1": "cuda:0"}, or a function of the device's name (None: where they were; the CPU
    when there is no CUDA). weights_only: refuse files that name anything but Tensors, numbers and
    containers, so that loading runs no code of the file's; a whole Module needs False.
    Errors: pickle.UnpicklingError, with the name, for a file that weights_only refuses, and for
    one of torch.save. Source of the name: torch.load.
    """
    with _opened(f, "rb") as file:
        start = file.read(4)
        file.seek(-len(start), 1)
        if start[:2] == b"PK":
            raise pickle.UnpicklingError(
                "this is a zip file, as torch.save writes; gradhook.load reads what gradhook.save "
                "wrote. In PyTorch, convert with {k: v.numpy() for k, v in state_dict.items()}, "
                "and make tensors of it with gradhook.from_numpy"
            )
        return _Reader(file, map_location, weights_only).load()
