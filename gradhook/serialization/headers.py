"""The header of a safetensors file: read with distrust, written as the safetensors library does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradhook.serialization.elements import (
    BFLOAT16,
    BY_CODE,
    BY_NUMPY,
    Element,
    narrowed,
)
from gradhook.serialization.errors import LoadError, shown
from gradhook.serialization.layout import checked_sizes
from gradhook.serialization.values import product

METADATA = "__metadata__"
LONGEST = 100_000_000  # bytes of a header, as in the safetensors library
# The library writes larger elements first; this is its order of dtypes.
_ORDER = "BOOL U8 I8 I16 F16 BF16 I32 F32 C64 F64 I64".split()


def unpacked(file: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays of a file (seekable), in the order of the header, and its metadata.

    Errors: LoadError unless the tensors fill the rest of the file, without gap or overlap.
    """
    header, start, size = _header(file)
    metadata = header.pop(METADATA, {})
    if type(metadata) is not dict or any(type(v) is not str for v in metadata.values()):
        raise LoadError("its metadata are no dict of texts")
    places = {name: _place(name, entry, size) for name, entry in header.items()}
    at = 0
    for name, (_, _, begin, end) in sorted(places.items(), key=lambda p: p[1][2:]):
        if begin != at:
            raise LoadError(f"the tensor {shown(name)} begins at byte {begin}, expected {at}")
        at = end
    if at != size:
        raise LoadError(f"its header names {at} bytes of tensors, the file has {size}")
    arrays = {}
    for name, (element, shape, begin, end) in places.items():
        flat = np.empty((end - begin) // element.itemsize, element.stored)
        file.seek(start + begin)
        if file.readinto(flat.view(np.uint8).data) != flat.nbytes:
            raise LoadError(f"the tensor {shown(name)} is cut short")
        arrays[name] = element.decoded(flat, "little").reshape(shape)
    return arrays, metadata


def _header(file: Any) -> tuple[dict[str, Any], int, int]:
    """The JSON header, where the tensors begin and how many bytes they have."""
    total = file.seek(0, 2)
    file.seek(0)
    if total < 8:
        raise LoadError(f"it has {total} bytes, a safetensors file has 8 and a header")
    length = int.from_bytes(file.read(8), "little")
    if length > min(LONGEST, total - 8):
        raise LoadError(
            f"its header has {length} bytes, the file {total}: it is cut short, or no safetensors "
            "file"
        )
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"its header is damaged: {str(error)[:100]}") from error
    if type(header) is not dict:
        raise LoadError(f"its header is {shown(header)}, expected names and their places")
    return header, 8 + length, total - 8 - length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in it")
    return found


def _place(name: str, entry: Any, size: int) -> tuple[Element, tuple[int, ...], int, int]:
    """Element type, shape, begin and end of a tensor."""
    if type(entry) is not dict or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise LoadError(f"the tensor {shown(name)} has no dtype, shape and place in the header")
    code = entry["dtype"]
    element = BY_CODE.get(code) if type(code) is str else None
    if element is None:
        known = " ".join(BY_CODE)
        raise LoadError(
            f"the tensor {shown(name)} has the dtype {shown(code)}, which gradhook has no "
            f"counterpart of; it has: {known}"
        )
    shape = checked_sizes(entry["shape"], "shape")
    begin, end = checked_sizes(entry["data_offsets"], "place") if _pair(entry) else (0, -1)
    if not begin <= end <= size or end - begin != product(shape) * element.itemsize:
        raise LoadError(
            f"the tensor {shown(name)} of shape {shape} and dtype {code} lies in bytes {begin} to "
            f"{end} of {size}, it needs {product(shape) * element.itemsize}"
        )
    return element, shape, begin, end


def _pair(entry: dict[str, Any]) -> bool:
    return type(entry["data_offsets"]) is list and len(entry["data_offsets"]) == 2


def packed(
    arrays: Mapping[str, np.ndarray[Any, Any]],
    wished: Mapping[str, Any],
    metadata: Mapping[str, str] | None,
) -> list[Any]:
    """The header (bytes) and the arrays, as they follow each other in a file.

    wished: "bfloat16" for float32 arrays to be written as that. Errors: TypeError for metadata
    that are no texts.
    """
    header: dict[str, Any] = {}
    if metadata is not None:
        texts = isinstance(metadata, Mapping) and all(
            isinstance(part, str) for item in metadata.items() for part in item
        )
        if not texts:
            raise TypeError(f"metadata: found {metadata!r}, expected a dict of str to str")
        header[METADATA] = dict(metadata)
    elements = {n: BFLOAT16 if wished.get(n) else BY_NUMPY[a.dtype] for n, a in arrays.items()}
    missing = next((n for n, e in elements.items() if not e.code), None)
    if missing is not None:
        raise ValueError(
            f"the tensor {missing!r} has the dtype {elements[missing].name}, which safetensors "
            "files have none of; gradhook.save writes every dtype"
        )
    names = sorted(arrays, key=lambda n: (-_ORDER.index(elements[n].code), n))
    parts: list[Any] = []
    at = 0
    for name in names:
        a, element = arrays[name], elements[name]
        stored = narrowed(a) if element is BFLOAT16 else a
        little = np.ascontiguousarray(stored, stored.dtype.newbyteorder("<"))
        header[name] = {
            "dtype": element.code,
            "shape": list(a.shape),
            "data_offsets": [at, at + little.nbytes],
        }
        at += little.nbytes
        if little.size:
            parts.append(little.reshape(-1).view(np.uint8).data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *parts]
