""".npz files, as numpy.savez writes them: names to arrays, no pickles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.serialization.archive import Archive
from gradhook.serialization.elements import BY_NUMPY
from gradhook.serialization.errors import LoadError, shown
from gradhook.serialization.layout import checked_sizes
from gradhook.serialization.values import product

MAGIC = b"\x93NUMPY"
_DESCR = re.compile(r"'descr': '([<>|=]?)([?a-zA-Z]\d{0,9})'")
_ORDER = re.compile(r"'fortran_order': (True|False)")
_SHAPE = re.compile(r"'shape': \(([\d, ]{0,1000})\)")
_HEADER = re.compile(r"\{[^{}]*\}\s*")


def array_of(raw: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """The array of one .npy entry, over its bytes (uint8). Errors: LoadError for a damaged one,
    for pickled objects, and for a dtype that tensors don't have.
    """
    data = raw.tobytes()[:12]
    if data[:6] != MAGIC or len(data) < 12 or data[6] not in (1, 2, 3):
        raise LoadError(f"the entry {shown(name)} is no .npy file of version 1 to 3")
    start = 10 if data[6] == 1 else 12
    end = start + int.from_bytes(data[8:start], "little")
    header = raw[start:end].tobytes().decode("latin1") if end <= min(raw.size, 1 << 16) else ""
    descr, order, shape = (p.search(header) for p in (_DESCR, _ORDER, _SHAPE))
    if not (_HEADER.fullmatch(header) and descr and order and shape):
        raise LoadError(
            f"the entry {shown(name)} has a damaged header, or one of a structured dtype"
        )
    kind = _dtype(descr[1], descr[2], name)
    sizes = checked_sizes(tuple(int(n[:19]) for n in re.findall(r"\d+", shape[1])), "shape")
    if product(sizes) * kind.itemsize != raw.size - end:
        raise LoadError(
            f"the entry {shown(name)} has {raw.size - end} bytes of values, its shape {sizes} and "
            f"dtype {kind} need {product(sizes) * kind.itemsize}"
        )
    values = np.empty(product(sizes), kind)  # aligned
    values.view(np.uint8)[:] = raw[end:]
    native = values.astype(kind.newbyteorder("="), copy=False)
    return native.reshape(sizes, order="F" if order[1] == "True" else "C")


def _dtype(order: str, code: str, name: str) -> np.dtype[Any]:
    try:
        kind = np.dtype(order + code)
    except TypeError:
        kind = np.dtype(object)
    if kind.newbyteorder("=") not in BY_NUMPY:
        raise LoadError(
            f"the entry {shown(name)} has the dtype {code!r}, which tensors don't have; convert "
            "the array in NumPy (arrays of objects are pickles, which may run any code)"
        )
    return kind


def read_npz(archive: Archive, place: Callable[[str, Any], str]) -> dict[str, Any]:
    """The Tensors of an .npz file. place: the device that the CPU's arrays go to."""
    other = next((n for n in archive.entries if not n.endswith(".npy")), None)
    if other is not None:
        raise LoadError(
            f"this zip file has the entry {shown(other)}: it is neither a checkpoint of "
            "gradhook.save or torch.save (which has a data.pkl), nor an .npz file"
        )
    arrays = {
        name.removesuffix(".npy"): array_of(archive.read(name), name) for name in archive.entries
    }
    return {name: make(backend.to_device(a, place("cpu", a))) for name, a in arrays.items()}


def npy_bytes(array: np.ndarray[Any, Any]) -> tuple[bytes, np.ndarray[Any, Any]]:
    """The header of an array's .npy file, and the contiguous array that follows it."""
    head = BytesIO()
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    described = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(head, {**described, "fortran_order": fortran})
    return head.getvalue(), np.ascontiguousarray(array.T if fortran else array)


def checked_tensors(tensors: Mapping[str, Any], tensor: type) -> None:
    """Errors: TypeError unless it maps names to Tensors."""
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"expected a dict of names to tensors, found {type(tensors).__name__}; a Module's is "
            "its state_dict()"
        )
    for name, value in tensors.items():
        if not isinstance(name, str) or not isinstance(value, tensor):
            raise TypeError(
                f"expected a dict of names to tensors, found {name!r}: {type(value).__name__}; "
                "gradhook.save writes any structure"
            )
