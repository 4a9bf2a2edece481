"""Fractional max pooling: windows at pseudo-random steps."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from gradhook.ops.table import op

Array = Any


def _starts(xp: Any, sample: Array, size: int, kernel: int, windows: int) -> Array:
    """Where the windows of an axis begin. sample: (...) in [0, 1). Result: (..., windows) int64."""
    last = xp.full((*sample.shape, min(windows, 1)), size - kernel, "i8")
    if windows <= 1:
        return last
    step = sample.dtype.type((size - kernel) / (windows - 1))
    s = sample[..., None]
    counted = xp.arange(windows - 1).astype(sample.dtype) + s
    return xp.concatenate([(counted * step).astype("i8") - (s * step).astype("i8"), last], -1)


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, x_shape, kernel: xp.plane_scatter(
        g0, out1, shape=x_shape, rank=len(kernel)
    ),
    samples=None,
)
def fractional_pool(
    xp: Any, x: Array, samples: Array, *, kernel: tuple[int, ...], output: tuple[int, ...]
) -> tuple[Array, Array]:
    """The maximum of windows that begin at pseudo-random steps, and its flat index in the plane.

    x: (batch, channels, *spatial); samples: (batch, channels, axes) in [0, 1), of 2 axes the last
    one first. Result: (batch, channels, *output), dtype of x, and int64 indices. A NaN wins; of
    equal values the first. Source: B. Graham, "Fractional Max-Pooling" (2014), as PyTorch.
    """
    n, c, *spatial = x.shape
    rank = len(spatial)
    flat: Any = 0
    for axis, (size, k, windows) in enumerate(zip(spatial, kernel, output, strict=True)):
        sample = samples[:n, :, rank - 1 - axis if rank == 2 else axis]
        starts = _starts(xp, sample, size, k, windows)
        shape = (n, c, *(windows if a == axis else 1 for a in range(rank)))
        flat = flat * size + starts.reshape(shape)
    flat = flat.reshape(n * c, prod(output))
    planes, rows = x.reshape(n * c, prod(spatial)), xp.arange(n * c)[:, None]
    best, where = planes[rows, flat], flat.copy()
    for offset in list(product(*(range(k) for k in kernel)))[1:]:
        shift = 0
        for size, step in zip(spatial, offset, strict=True):
            shift = shift * size + step
        candidate = planes[rows, flat + shift]
        better = (candidate > best) | (candidate != candidate)
        best = xp.where(better, candidate, best)
        where = xp.where(better, flat + shift, where)
    shape = (n, c, *output)
    return best.reshape(shape), where.reshape(shape)
