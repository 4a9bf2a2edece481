"""The convolutions of one group on NumPy, some samples at a time: their columns stay in a core's
cache, where those of a whole batch are many times its size and all fresh memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from gradhook.kernels.parts import scratch, slices
from gradhook.ops.windows import Geometry, pad_spatial, windows

Array = Any
PART = 1 << 18  # elements of columns: 1 MB of float32


def takes(*arrays: Array | None) -> bool:
    """Whether these are NumPy arrays, not empty, of one dtype that BLAS has."""
    kind = arrays[0].dtype  # type: ignore[union-attr]
    return kind.char in "fdFD" and all(
        [a is None or (type(a) is np.ndarray and a.dtype == kind and a.size) for a in arrays]
    )


def _samples(batch: int, columns: int) -> tuple[int, Iterator[slice]]:
    """How many samples make a part, and the parts of a batch. columns: elements a sample."""
    step = min(batch, max(1, PART // max(columns, 1)))
    return step, slices(batch, step)


def convolution(x: Array, weight: Array, bias: Array | None, where: Geometry) -> Array:
    """x: (batch, in, *spatial), weight: (out, in, *kernel). Result: (batch, out, *windows)."""
    seen = windows(np, pad_spatial(np, x, where), where)
    filters = weight.reshape(weight.shape[0], -1)
    rows, count = filters.shape[1], prod(where.out)
    out = np.empty((x.shape[0], len(filters), count), x.dtype)
    step, samples = _samples(len(x), rows * count)
    columns = scratch("columns", (step, *seen.shape[1:]), x.dtype)
    for part in samples:
        to = out[part]
        held = columns[: len(to)]
        np.copyto(held, seen[part])
        np.matmul(filters, held.reshape(len(to), rows, count), out=to)
        if bias is not None:
            to += bias[:, None]
    return out.reshape(*out.shape[:2], *where.out)


def convolution_weight(grad: Array, x: Array, where: Geometry) -> Array:
    """grad: (batch, out, *windows), x: (batch, in, *spatial). Result: (out, in, *kernel)."""
    seen = windows(np, pad_spatial(np, x, where), where)
    batch, filters = grad.shape[:2]
    count, rows = prod(where.out), x.shape[1] * prod(where.kernel)
    given = grad.reshape(batch, filters, count).swapaxes(1, 2)
    step, samples = _samples(batch, rows * count)
    columns = scratch("columns", (step, *seen.shape[1:]), x.dtype)
    products = scratch("products", (step, rows, filters), x.dtype)
    total = np.zeros((rows, filters), x.dtype)
    for part in samples:
        by = given[part]
        held, found = columns[: len(by)], products[: len(by)]
        np.copyto(held, seen[part])
        np.matmul(held.reshape(len(by), rows, count), by, out=found)
        total += found[0] if len(by) == 1 else found.sum(axis=0)
    return np.ascontiguousarray(total.T).reshape(filters, x.shape[1], *where.kernel)


def convolution_input(grad: Array, weight: Array, where: Geometry) -> Array:
    """grad: (batch, out, *windows), weight: (out, in, *kernel). Result: (batch, in, *spatial).

    With stride 1 the windows are as far apart as the elements of an image, once the rows of grad
    are as long as the image's: what a kernel position gives is then added in one piece.
    """
    batch, filters = grad.shape[:2]
    channels = weight.shape[1]
    turned = np.ascontiguousarray(weight.reshape(filters, -1).T)
    strided = set(where.stride) != {1}
    wide = where.out if strided else (where.out[0], *where.padded[1:])
    steps = [prod(where.padded[k + 1 :]) for k in range(len(wide))]
    last = sum((n - 1) * s for n, s in zip(where.out, steps, strict=True)) + 1
    image = np.zeros((batch, channels, *where.padded), grad.dtype)
    flat, count = image.reshape(batch, channels, -1), prod(wide)
    step, samples = _samples(batch, len(turned) * count)
    spread = scratch("products", (step, filters, *wide), grad.dtype)
    spread.fill(0)
    offsets = where.offsets()
    axes = [(d * s) for d, s in zip(where.dilation, steps, strict=True)]
    starts = [sum([o * s for o, s in zip(offset, axes, strict=True)]) for offset in offsets]
    inner = tuple([slice(n) for n in where.out])
    columns = scratch("columns", (step, len(turned), count), grad.dtype)
    for part in samples:
        by = grad[part]
        n = len(by)
        spread[(slice(n), slice(None), *inner)] = by
        found = np.matmul(turned, spread[:n].reshape(n, filters, count), out=columns[:n])
        kernels = found.reshape(n, channels, -1, count)
        for k, offset in enumerate(offsets):
            if strided:
                to = image[(part, slice(None), *where.window_slices(offset))]
                to += kernels[:, :, k].reshape(to.shape)
            else:
                to = flat[part, :, starts[k] : starts[k] + last]
                np.add(to, kernels[:, :, k, :last], out=to)
    inside: Any = (..., *where.inner_slices())
    return np.ascontiguousarray(image[inside])
