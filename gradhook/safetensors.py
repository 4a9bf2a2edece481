"""safetensors files: names to tensors and nothing else, with safetensors.torch's names and meaning.

The format: 8 bytes that hold the length of a JSON header, the header, then the tensors' bytes.
bfloat16 is loaded as float32, exactly, and written where asked for. Source of the format and the
names: https://github.com/huggingface/safetensors, version 0.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from os import PathLike
from typing import Any

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.serialization.errors import LoadError as LoadError
from gradhook.serialization.files import named, opened
from gradhook.serialization.headers import packed, unpacked
from gradhook.serialization.npz import checked_tensors
from gradhook.serialization.sharing import duplicates
from gradhook.tensor import Tensor

Path = str | PathLike[str]
Metadata = Mapping[str, str] | None
Dtype = Any


def save(tensors: Mapping[str, Tensor], metadata: Metadata = None, *, dtype: Dtype = None) -> bytes:
    """The bytes of a safetensors file. Arguments and errors: save_file's."""
    return b"".join(bytes(part) for part in _parts(tensors, metadata, dtype))


def save_file(
    tensors: Mapping[str, Tensor],
    filename: Path,
    metadata: Metadata = None,
    *,
    dtype: Dtype = None,
) -> None:
    """Write a dict of names to Tensors (contiguous, of any shape) to a safetensors file.

    metadata: a dict of str to str, kept in the header. dtype: "bfloat16", to write the float32
    tensors as that (rounded to nearest, ties to even), or a dict of names to it for some of them.
    Errors, before the file is opened: TypeError for anything but Tensors and texts; ValueError for
    a Tensor that is not contiguous, or of a dtype that the format lacks (complex128);
    RuntimeError for Tensors that share memory.
    Source: safetensors.torch.save_file; `dtype` is gradhook's own.
    """
    parts = _parts(tensors, metadata, dtype)
    with opened(filename, "wb") as file:
        for part in parts:
            file.write(part)


def load(data: bytes, device: Any = "cpu") -> dict[str, Any]:
    """The Tensors in the bytes of a safetensors file. Arguments and errors: load_file's."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"expected the bytes of a file, found {type(data).__name__}; see load_file")
    with named(None):
        return _tensors(unpacked(BytesIO(data))[0], device)


def load_file(filename: Path, device: Any = "cpu") -> dict[str, Any]:
    """The Tensors of a safetensors file, in its order; bfloat16 becomes float32, exactly.

    device: where they go to. Errors: gradhook.serialization.LoadError for a damaged file and for
    a dtype that gradhook does not have. Source: safetensors.torch.load_file.
    """
    with opened(filename, "rb") as file, named(filename):
        return _tensors(unpacked(file)[0], device)


def load_metadata(filename: Path) -> dict[str, str]:
    """The metadata of a safetensors file. Errors: load_file's."""
    with opened(filename, "rb") as file, named(filename):
        return unpacked(file)[1]


def save_model(
    model: Any,
    filename: Path,
    metadata: Metadata = None,
    force_contiguous: bool = True,
    *,
    dtype: Dtype = None,
) -> None:
    """Write a Module's state_dict; of tensors that are one memory under several names, one is kept,
    and the metadata says {other name: kept name}.

    force_contiguous: write contiguous copies of the others. Errors: save_file's; RuntimeError when
    no name holds the whole of a shared memory. Source: safetensors.torch.save_model.
    """
    state = dict(model.state_dict())
    notes = dict(metadata or {})
    for kept, others in duplicates(state).items():
        for name in others:
            notes.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: t.contiguous() for name, t in state.items()}
    save_file(state, filename, notes or None, dtype=dtype)


def load_model(
    model: Any, filename: Path, strict: bool = True, device: Any = "cpu"
) -> tuple[set[str], list[str]]:
    """Load what save_model wrote into a Module; all or nothing. Returns (missing, unexpected).

    strict: both must be empty. Errors: load_file's; RuntimeError for names and sizes that differ.
    Source: safetensors.torch.load_model, which copies what fits before it raises.
    """
    state = load_file(filename, device)
    tied = duplicates(dict(model.state_dict()), preferred=state.keys())
    given = {other for others in tied.values() for other in others}
    own = model.state_dict().keys()
    missing = {name for name in own if name not in state and name not in given}
    unexpected = [name for name in state if name not in own or name in given]
    if strict and (missing or unexpected):
        text = f"Error(s) in loading state_dict for {type(model).__name__}:"
        for kind, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                text += f"\n    {kind} key(s) in state_dict: {listed}"
        raise RuntimeError(text)
    model.load_state_dict(state, strict=False)
    return missing, unexpected


def _tensors(arrays: dict[str, Any], device: Any) -> dict[str, Any]:
    return {name: make(backend.to_device(a, device)) for name, a in arrays.items()}


def _parts(tensors: Mapping[str, Tensor], metadata: Metadata, dtype: Dtype) -> list[Any]:
    """The header and the arrays of a file. Errors: save_file's."""
    checked_tensors(tensors, Tensor)
    names = {str(dtype)} if not isinstance(dtype, Mapping) else {str(d) for d in dtype.values()}
    if not names <= {"None", "bfloat16"}:
        raise ValueError(
            f"dtype: found {dtype!r}, expected 'bfloat16', a dict of names to it, or None; cast "
            "tensors to other dtypes with .to(dtype)"
        )
    if isinstance(dtype, Mapping) and not dtype.keys() <= tensors.keys():
        raise ValueError(f"dtype: {sorted(dtype.keys() - tensors.keys())} are no tensors here")
    for name, t in tensors.items():
        if not t.is_contiguous():
            raise ValueError(
                f"the tensor {name!r} of strides {t.stride()} is not contiguous; call .contiguous()"
            )
    shared = duplicates(tensors, whole=False)
    if shared:
        kept, others = next(iter(shared.items()))
        raise RuntimeError(
            f"the tensors {kept!r} and {others} share memory, which safetensors files can't hold; "
            "use save_model, or .clone()"
        )
    wished = {
        name: (dtype.get(name) if isinstance(dtype, Mapping) else dtype)
        if t._a.dtype == "f4"
        else None
        for name, t in tensors.items()
    }
    return packed({n: t.numpy(force=True) for n, t in tensors.items()}, wished, metadata)
