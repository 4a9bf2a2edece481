"""Maxima of windows, and the sums of their gradients, on NumPy arrays, natively: see
kernels/pooling_cpu.h. Each declines (NotImplemented) what it does not do.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from gradhook.kernels.host_native import host_function, record
from gradhook.kernels.launch import dtype_name, fresh, is_plain
from gradhook.kernels.registry import declines_unbuilt
from gradhook.native import library

Array = Any
FILE = "pooling_cpu.h"
MAX_POOL = (
    "MaxPool of, const T* padded, T* out, long long* places, const long long* offsets, "
    "const long long* starts, const long long* lines, const long long* columns"
)
SCATTER = (
    "const T* x, const long long* places, T* out, long long planes, long long count, "
    "long long plane, int* outside"
)


def _grid(axes: list[Array]) -> Array:
    """The sum of one entry of each axis, for every choice of them, in row-major order."""
    found = np.zeros(1, np.int64)
    for axis in axes:
        found = (found[:, None] + axis).reshape(-1)
    return found


@functools.lru_cache(256)
def _tables(where: Any) -> tuple[Array, Array, Array, Array]:
    """What `max_pool` of the device text needs of a Geometry: offsets, starts, lines, columns."""
    rank, padded = len(where.spatial), where.padded
    steps = [prod(padded[k + 1 :]) for k in range(rank)]
    positions = [np.arange(k) * d for k, d in zip(where.kernel, where.dilation, strict=True)]
    firsts = [np.arange(n) * s for n, s in zip(where.out, where.stride, strict=True)]
    offsets = _grid([p * s for p, s in zip(positions, steps, strict=True)])
    starts = _grid([f * s for f, s in zip(firsts[:-1], steps[:-1], strict=True)])
    lines = np.zeros((1, 1), np.int64)  # rows of windows x positions, less those of the last axis
    for k in range(rank - 1):
        at = firsts[k][:, None] - where.padding[k][0] + positions[k]
        at = np.clip(at, 0, where.spatial[k] - 1) * prod(where.spatial[k + 1 :])
        lines = lines[:, None, :, None] + at[:, None, :]
        lines = lines.reshape(-1, lines.shape[2] * lines.shape[3])
    lines = np.ascontiguousarray(np.repeat(lines, where.kernel[-1], axis=1))
    columns = np.ascontiguousarray(np.tile(positions[-1], lines.shape[1] // where.kernel[-1]))
    return offsets, starts, lines, columns


@declines_unbuilt
def max_pool(padded: Array, where: Any) -> Any:
    """The maxima of windows of a padded array (*lead, *padded), and their flat places in unpadded
    planes, int64, both (*lead, *windows).
    """
    if type(padded) is not np.ndarray or not library.is_available() or not is_plain(padded):
        return NotImplemented
    if not padded.size or min((*where.out, *where.kernel)) < 1:
        return NotImplemented
    rank = len(where.spatial)
    planes = prod(padded.shape[:-rank])
    shape = (*padded.shape[:-rank], *where.out)
    out, places = fresh(padded, shape, padded.dtype), fresh(padded, shape, np.dtype(np.int64))
    numbers = {
        "planes": planes, "plane": prod(where.padded), "rows": prod(where.out[:-1]),
        "length": where.out[-1], "step": where.stride[-1], "positions": prod(where.kernel),
        "width": where.spatial[-1], "before": where.padding[-1][0],
    }  # fmt: skip
    number = "int" if padded.itemsize == 4 else "long long"
    kernel = host_function(FILE, "max_pool", MAX_POOL, dtype_name(padded), f"<T, {number}>")
    kernel(record(numbers), padded, out, places, *_tables(where))
    return out, places


@declines_unbuilt
def plane_scatter(grad: Array, places: Array, shape: tuple[int, ...], rank: int) -> Array:
    """Sums of grad at flat places of each plane, of this shape."""
    if type(grad) is not np.ndarray or not library.is_available() or not is_plain(grad):
        return NotImplemented
    if (
        not grad.size
        or places.shape != grad.shape
        or places.dtype != np.int64
        or not places.flags.c_contiguous
    ):
        return NotImplemented
    lead = len(shape) - rank
    planes, out = prod(shape[:lead]), fresh(grad, shape, grad.dtype)
    outside = np.zeros((), np.int32)
    kernel = host_function(FILE, "plane_scatter", SCATTER, dtype_name(grad))
    kernel(grad, places, out, planes, grad.size // planes, prod(shape[lead:]), outside)
    return NotImplemented if outside else out
