"""The element types of files: PyTorch's and safetensors' names for them, and their bytes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradhook import dtypes


@dataclass(frozen=True)
class Element:
    """An element type as files have it. name, storage: PyTorch's (`float32`, `FloatStorage`); code:
    safetensors' (`F32`); stored: the NumPy dtype of its bytes; held: the dtype it is loaded as.
    """

    name: str
    storage: str
    code: str
    stored: np.dtype[Any]
    held: dtypes.dtype

    @property
    def itemsize(self) -> int:
        return self.stored.itemsize

    def decoded(self, flat: np.ndarray[Any, Any], byteorder: str = sys.byteorder) -> Any:
        """The values of an array of `stored`, over the same memory but for bfloat16.

        byteorder: "little" or "big", of the bytes; others than this machine's are swapped in place.
        """
        if byteorder != sys.byteorder and self.itemsize > 1:
            flat.byteswap(inplace=True)
        return widened(flat) if self.name == "bfloat16" else flat


def widened(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bfloat16 bits (uint16, any shape) as float32; exact."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def narrowed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 (any shape) as bfloat16 bits (uint16), rounded to nearest, ties to even; a NaN stays
    one.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    rounded = np.where(np.isnan(values), (bits >> 16) | 0x40, rounded)
    return rounded.astype(np.uint16).reshape(values.shape)


_CODES = {"bool": "BOOL", "complex64": "C64", "complex128": ""}  # the format has none


def _code(d: dtypes.dtype) -> str:
    return _CODES.get(d.name, f"{d.kind.upper()}{d.itemsize * 8}")


BFLOAT16 = Element("bfloat16", "BFloat16Storage", "BF16", np.dtype(np.uint16), dtypes.float32)
ELEMENTS = (
    *(Element(d.name, f"{d.title}Storage", _code(d), d.np, d) for d in dtypes.ALL),
    BFLOAT16,
)
BY_NAME = {e.name: e for e in ELEMENTS}
BY_STORAGE = {e.storage: e for e in ELEMENTS}
BY_CODE = {e.code: e for e in ELEMENTS if e.code}
BY_NUMPY = {e.stored: e for e in ELEMENTS if e is not BFLOAT16}
