"""What arrays share: whether two overlap, whether one overlaps itself. Reads no data."""

from __future__ import annotations

from typing import Any

import numpy as np


def _byte_bounds(array: Any) -> tuple[int, int]:
    """The addresses of a CuPy array's first byte and of the one after its last; equal if empty."""
    low = high = int(array.data.ptr)
    if array.size == 0:
        return low, low
    for length, stride in zip(array.shape, array.strides, strict=True):
        extent = (length - 1) * stride
        low, high = (low + extent, high) if extent < 0 else (low, high + extent)
    return low, high + array.itemsize


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two arrays can share memory: their byte ranges meet. Cheap, moves no data.

    False is certain. Two interleaved views of one array (x[::2], x[1::2]) count as sharing.
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, type(b)) and np.may_share_memory(a, b)
    a_low, a_high = _byte_bounds(a)
    b_low, b_high = _byte_bounds(b)
    return a_low < b_high and b_low < a_high and a_low != a_high and b_low != b_high


def is_view_of(view: Any, array: Any) -> bool:
    """Whether what a view function made of an array shares its memory, and is no copy."""
    base = view.base
    if base is not None and (base is array or base is array.base):
        return True
    if type(view) is np.ndarray:  # as_strided puts another object between a view and its base
        return bool(np.may_share_memory(view, array))
    if base is not None:
        return False
    # CuPy's as_strided and sliding windows name no base
    return view.data.mem is array.data.mem and shares_memory(view, array)


def has_internal_overlap(array: Any) -> bool:
    """Whether two elements of an array share memory, so that a write in place is ill-defined.

    Exact. True for what expand and sliding windows make, False for slices and transposes.
    """
    if array.flags.c_contiguous or array.size < 2:
        return False
    axes = sorted((abs(s), n) for n, s in zip(array.shape, array.strides, strict=True) if n > 1)
    if axes[0][0] == 0:
        return True
    span = array.itemsize
    nested = True
    for stride, length in axes:
        nested = nested and stride >= span
        span += (length - 1) * stride
    if nested:
        return False
    if array.size * array.itemsize > span:
        return True
    # Odd strides (as_strided only): all byte offsets, the smallest gap between two decides.
    offsets = np.zeros(1, np.int64)
    for stride, length in axes:
        offsets = np.add.outer(offsets, np.arange(length) * stride).reshape(-1)
    return bool(np.diff(np.sort(offsets)).min() < array.itemsize)
