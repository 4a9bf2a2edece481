"""save and load: objects that hold Tensors, in PyTorch's checkpoint files; and .npz files."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from io import BytesIO
from os import PathLike, fspath
from typing import Any

from gradhook import backend
from gradhook.serialization.archive import Archive, ArchiveWriter
from gradhook.serialization.errors import Budget, LoadError
from gradhook.serialization.names import Names
from gradhook.serialization.npz import checked_tensors, npy_bytes, read_npz
from gradhook.serialization.opcode_table import WeightsMachine
from gradhook.serialization.rebuilding import Rebuilding
from gradhook.serialization.storages import Location, Storages
from gradhook.serialization.values import Values
from gradhook.serialization.writer import pickled
from gradhook.tensor import Tensor

PICKLE = "data.pkl"
VERSION = b"3\n"  # of PyTorch's format
TORCH_ONLY = (
    "in PyTorch, load it and write it again with torch.save(state_dict, path), which makes a zip "
    "file since PyTorch 1.6"
)


@contextmanager
def opened(f: Any, mode: str) -> Iterator[Any]:
    """A file: one of a path, which is closed afterwards, or the file itself."""
    with open(fspath(f), mode) if isinstance(f, str | PathLike) else nullcontext(f) as file:
        yield file


@contextmanager
def named(f: Any) -> Iterator[None]:
    """Errors of loading begin with the file's name."""
    try:
        yield
    except LoadError as error:
        name = fspath(f) if isinstance(f, str | PathLike) else getattr(f, "name", None)
        what = f"file {name!r}" if isinstance(name, str) else "file"
        raise LoadError(f"can't load the {what}: {error}") from error.__cause__


def save(obj: Any, f: Any, *, pickle_protocol: int = 2) -> None:
    """Write an object to a file: a state_dict, a Module, or any structure with Tensors in it.

    f: a path, or a file open for writing bytes. pickle_protocol: 2 to 5; torch.load needs 2 or 3.
    The file is PyTorch's (zip, uncompressed): torch.load reads it, as gradhook.load reads those of
    torch.save. Tensors that share memory share it in the file, which holds all of that memory. CUDA
    tensors are copied to the host (counted by gradhook.profiler.transfers). Errors: RuntimeError
    for a tensor with history, ValueError for another protocol, what pickle raises for what it
    cannot write; nothing is written then. Source: torch.save.
    """
    if pickle_protocol not in (2, 3, 4, 5):
        raise ValueError(f"pickle_protocol: found {pickle_protocol!r}, expected 2, 3, 4 or 5")
    data, storages = pickled(obj, pickle_protocol)
    with opened(f, "wb") as file, ArchiveWriter(file) as archive:
        archive.write(f"archive/{PICKLE}", data)
        archive.write("archive/.format_version", b"1")
        archive.write("archive/.storage_alignment", b"64")
        archive.write("archive/byteorder", sys.byteorder.encode())
        for key, flat in enumerate(storages):
            archive.write(f"archive/data/{key}", backend.to_host(flat))
        archive.write("archive/version", VERSION)


def load(f: Any, map_location: Location = None, *, weights_only: bool = True) -> Any:
    """Read what gradhook.save or torch.save wrote, without PyTorch; or an .npz file, as a dict of
    names to Tensors.

    f: a path, or a seekable file open for reading bytes. map_location: the device tensors go to, a
    dict {"cuda:1": "cuda:0"}, or a function of the device's name, or of a Storage and the name as
    PyTorch's (None: where they were; the CPU when there is no CUDA). weights_only: take Tensors,
    numbers, text, NumPy arrays of numbers and containers only, so that loading runs no code of the
    file's; a whole Module needs False. bfloat16 becomes float32, exactly.
    Errors: gradhook.serialization.LoadError (a pickle.UnpicklingError and RuntimeError) for a
    damaged file, one of another format, and what weights_only refuses. A damaged or hostile file
    takes memory of a small multiple of its size and a time that grows with it.
    Source: torch.load.
    """
    with opened(f, "rb") as file, named(f):
        _check_start(file)
        archive = Archive(file, deflated=True)
        found = [n for n in archive.entries if n.endswith(f"/{PICKLE}") and n.count("/") == 1]
        if not found:
            return read_npz(archive, Storages(archive, "", "little", map_location).place)
        prefix = found[0].removesuffix(PICKLE)
        _check_checkpoint(archive, found, prefix)
        byteorder = archive.text(f"{prefix}byteorder") or "little"
        if byteorder not in ("little", "big"):
            raise LoadError(f"its byteorder is {byteorder!r}, expected little or big")
        storages = Storages(archive, prefix, byteorder, map_location)
        data = archive.read(found[0]).tobytes()
        return _weights(data, storages) if weights_only else _trusted(data, storages)


def _check_start(file: Any) -> None:
    """Errors: LoadError, with the way out, for a file of another format."""
    start = file.read(16)
    file.seek(-len(start), 1)
    if start[:2] == b"PK":
        return
    if not start:
        raise LoadError("it is empty")
    if start[:1] == b"\x80":
        raise LoadError(
            "it is a bare pickle, as torch.save wrote before PyTorch 1.6 and pickle.dump does; "
            + TORCH_ONLY
        )
    if start[:6] == b"\x93NUMPY":
        raise LoadError("it is an .npy file; use gradhook.from_numpy(numpy.load(path))")
    if start[8:9] == b"{" and start[6:8] == b"\0\0":
        raise LoadError("it is a safetensors file; use gradhook.safetensors.load_file(path)")
    raise LoadError(
        f"it begins with {start[:8]!r}, expected a zip file as gradhook.save, torch.save and "
        "numpy.savez write"
    )


def _check_checkpoint(archive: Archive, found: list[str], prefix: str) -> None:
    """Errors: LoadError for what has a data.pkl, but is no checkpoint that can be read."""
    if len(found) > 1:
        raise LoadError(f"it has several pickles: {', '.join(n[:60] for n in found[:4])}")
    if f"{prefix}constants.pkl" in archive.entries:
        raise LoadError(
            "it is a TorchScript program, no checkpoint; in PyTorch, save the state_dict of "
            "torch.jit.load(path)"
        )
    packed = next((i for i in archive.entries.values() if i.compress_type), None)
    if packed is not None:
        raise LoadError(
            f"the entry {packed.filename[:60]!r} is compressed, in checkpoints none is; unpack the "
            "file and zip it again without compression (zip -0 -r)"
        )
    version = archive.text(f"{prefix}version") or archive.text(f"{prefix}.data/version")
    if version is not None and not (version.isdecimal() and 1 <= int(version) <= 10):
        raise LoadError(f"its format has version {version!r}, expected 3")


def _weights(data: bytes, storages: Storages) -> Any:
    """The object of a pickle that runs no code."""
    values = Values(Budget(len(data)))
    rebuilding = Rebuilding(storages, values)
    names = Names(values, rebuilding)

    def set_state(made: Any, state: Any) -> None:
        if isinstance(made, Tensor):
            rebuilding.set_attributes(made, state)
        else:
            values.set_state(made, state)

    machine = WeightsMachine(
        *(data, values, names.find, names.calls, storages.persistent, set_state)
    )
    return machine.run()


class _Trusting(pickle.Unpickler):
    """Reads any pickle, running what it says, with PyTorch's names for tensors."""

    def __init__(self, data: bytes, storages: Storages) -> None:
        super().__init__(BytesIO(data))
        values = Values(Budget(1 << 60))
        self._names = Names(values, Rebuilding(storages, values, safe=False)).objects
        self._persistent = storages.persistent

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "torch":
            found = self._names.get((module, name))
            if found is None:
                raise LoadError(
                    f"it names {module}.{name}, which gradhook has no counterpart of; in PyTorch, "
                    "save the state_dict and no whole module"
                )
            return found
        return super().find_class(module, name)

    def persistent_load(self, name: Any) -> Any:
        return self._persistent(name)


def _trusted(data: bytes, storages: Storages) -> Any:
    """The object of a pickle, which may run code. Errors: also whatever that code raises."""
    try:
        return _Trusting(data, storages).load()
    except LoadError:
        raise
    except (pickle.UnpicklingError, EOFError) as error:
        raise LoadError(f"its pickle is damaged: {error}") from error


def save_npz(tensors: Mapping[str, Any], f: Any) -> None:
    """Write a dict of names to Tensors as an .npz file, which numpy.load and gradhook.load read.

    f: a path (no suffix is added), or a file open for writing bytes. Errors: TypeError for anything
    but a dict of Tensors, before the file is opened. Source of the format: numpy.savez.
    """
    checked_tensors(tensors, Tensor)
    with opened(f, "wb") as file, ArchiveWriter(file) as archive:
        for name, tensor in tensors.items():
            head, body = npy_bytes(tensor.numpy(force=True))
            archive.write(f"{name}.npy", head, body)
