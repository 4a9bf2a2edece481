"""max_pool over two axes on NumPy, some planes at a time: of kh * kw positions only kh + kw are
compared, first along the rows, then down the columns of what is left.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gradhook.kernels.parts import PART, are_large, slices
from gradhook.ops.windows import Geometry

Array = Any


def takes(x: Array, where: Geometry) -> bool:
    """Whether x is a large NumPy array pooled over two axes, whose positions fit in a byte."""
    return (
        type(x) is np.ndarray
        and len(where.spatial) == 2
        and prod(where.kernel) < 256
        and are_large(x)
    )


def _steps(where: Geometry, axis: int) -> list[slice]:
    """What each kernel position of one axis meets along it."""
    k, s, d, n = (v[axis] for v in (where.kernel, where.stride, where.dilation, where.out))
    return [slice(at * d, at * d + s * (n - 1) + 1, s) for at in range(k)]


def _largest(given: list[Array], places: list[Array]) -> tuple[Array, Array]:
    """The first largest of several arrays, and its place; a place is larger than those before."""
    best, chosen = given[0], places[0]
    for candidate, place in zip(given[1:], places[1:], strict=True):
        better = candidate > best
        best = np.maximum(best, candidate)
        chosen = np.maximum(chosen, np.multiply(place, better.view(np.uint8)))
    return best, chosen


def max_pool(padded: Array, where: Geometry) -> tuple[Array, Array] | None:
    """The maxima and the kernel position of each, uint8, of (*lead, h, w); None where there is a
    NaN, which wins and hides what comes after it from comparisons.
    """
    lead, width = padded.shape[:-2], where.kernel[1]
    planes = padded.reshape(-1, *padded.shape[-2:])
    best = np.empty((len(planes), *where.out), padded.dtype)
    chosen = np.empty(best.shape, np.uint8)
    across, down = _steps(where, 1), _steps(where, 0)
    numbers = [np.uint8(k) for k in range(max(where.kernel[0], width))]
    for part in slices(len(planes), max(1, PART // prod(planes.shape[1:]))):
        of = planes[part]
        seen = [of[:, :, s] for s in across]
        along = np.zeros(seen[0].shape, np.uint8)
        lines, columns = _largest(seen, [along, *numbers[1:width]])
        found = [lines[:, s] for s in down]
        places = [columns[:, s] + np.uint8(k * width) for k, s in enumerate(down)]
        best[part], chosen[part] = _largest(found, places)
        if np.isnan(best[part].max()):
            return None
    shape = (*lead, *where.out)
    return best.reshape(shape), chosen.reshape(shape)
