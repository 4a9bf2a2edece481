"""Pooling: maximum by index, average as a linear map, each with its transpose."""

from __future__ import annotations

from math import prod
from typing import Any

from gradhook.kernels import host_pooling
from gradhook.ops import nn_pool_parts
from gradhook.ops.table import op
from gradhook.ops.windows import Geometry, geometry, pad_spatial

Array = Any


def pool_geometry(
    kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, spatial: Any
) -> Geometry:
    """Windows of a pooling call; ceil_mode pads the end so that the last, partial window counts if
    it starts inside.

    Source: PyTorch, pooling_output_shape: a window that would start in the padding after the end is
    dropped.
    """
    where = geometry(kernel, stride, padding, dilation, tuple(spatial))
    if not ceil_mode:
        return where
    pads = []
    for n, (a, b), k, s, d in zip(
        where.spatial, where.padding, where.kernel, where.stride, where.dilation, strict=True
    ):
        span = d * (k - 1) + 1
        windows = -(-(n + a + b - span) // s) + 1
        if (windows - 1) * s >= n + a:
            windows -= 1
        pads.append((a, max(b, (windows - 1) * s + span - n - a)))
    return Geometry(where.kernel, where.stride, tuple(pads), where.dilation, where.spatial)


def _lowest(xp: Any, dtype: Any) -> Any:
    return -xp.inf if dtype.kind == "f" else xp.iinfo(dtype).min


def _flat_indices(xp: Any, chosen: Array, where: Geometry) -> Array:
    """Kernel positions `chosen`, one a window, as flat indices into the unpadded plane."""
    rank = len(where.spatial)
    places = xp.arange(prod(where.kernel))
    inside = not any(a or b for a, b in where.padding)
    base, table, flat = 0, 0, 0
    for axis in range(rank):
        step = places // prod(where.kernel[axis + 1 :]) % where.kernel[axis] * where.dilation[axis]
        start = xp.arange(where.out[axis]) * where.stride[axis] - where.padding[axis][0]
        start = start.reshape((-1, *(1,) * (rank - 1 - axis)))
        size = where.spatial[axis]
        if inside:  # then the index is one sum, and one look-up gives it
            base, table = base * size + start, table * size + step
        else:  # a window of nothing but -inf chooses padding: stay in the plane
            flat = flat * size + xp.clip(start + xp.take(step, chosen), 0, size - 1)
    return base + xp.take(table, chosen) if inside else flat


@op(
    method=False,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, x_shape, rank: xp.plane_scatter(g0, out1, shape=x_shape, rank=rank),
    takes="iuf",
)
def max_pool(
    xp: Any,
    x: Array,
    *,
    rank: int,
    kernel: tuple[int, ...],
    stride: Any,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    """The maximum of every window and its flat index in the unpadded plane.

    x: (..., *spatial) with `rank` spatial axes. Result: (..., *windows), dtype of x, and int64
    indices. A NaN wins; of equal values the first.
    """
    where = pool_geometry(kernel, stride, padding, dilation, ceil_mode, x.shape[-rank:])
    padded = pad_spatial(xp, x, where, _lowest(xp, x.dtype))
    native: tuple[Array, Array] = host_pooling.max_pool(padded, where)
    if native is not NotImplemented:
        return native
    if nn_pool_parts.takes(padded, where):
        found = nn_pool_parts.max_pool(padded, where)
        if found is not None:
            return found[0], _flat_indices(xp, found[1], where)
    first, *others = where.offsets()
    best = padded[(..., *where.window_slices(first))].copy()
    number = xp.uint8 if len(others) < 256 else xp.int64
    chosen = xp.zeros(best.shape, dtype=number)
    for position, offset in enumerate(others, 1):
        candidate = padded[(..., *where.window_slices(offset))]
        better = candidate > best
        if x.dtype.kind == "f":
            better |= candidate != candidate
        xp.maximum(best, candidate, out=best)
        xp.maximum(chosen, better * number(position), out=chosen)
    return best, _flat_indices(xp, chosen, where)


@op(
    method=False,
    linear=True,
    x=lambda xp, g, indices, x_shape, rank: xp.plane_scatter(g, indices, shape=x_shape, rank=rank),
    indices=None,
)
def plane_gather(xp: Any, x: Array, indices: Array, *, rank: int) -> Array:
    """Elements of each plane at flat indices.

    x: (*lead, *spatial) and indices: (*lead, *windows), with `rank` spatial axes each. Result:
    shape of indices.
    """
    planes = _planes(x, rank)
    return planes[xp.arange(planes.shape[0])[:, None], _planes(indices, rank)].reshape(
        indices.shape
    )


@op(
    method=False,
    linear=True,
    grad=lambda xp, g, indices, rank: xp.plane_gather(g, indices, rank=rank),
    indices=None,
)
def plane_scatter(
    xp: Any, grad: Array, indices: Array, *, shape: tuple[int, ...], rank: int
) -> Array:
    """Sums of grad at flat indices of each plane, the transpose of `plane_gather`.

    Result: exactly `shape`.
    """
    found = host_pooling.plane_scatter(grad, indices, tuple(shape), rank)
    if found is not NotImplemented:
        return found
    size = prod(shape[len(shape) - rank :])
    at = _planes(indices, rank)
    out = xp.zeros(at.shape[0] * size, dtype=grad.dtype)
    xp.add.at(out, (at + xp.arange(at.shape[0])[:, None] * size).reshape(-1), grad.reshape(-1))
    return out.reshape(shape)


def _planes(x: Array, rank: int) -> Array:
    lead = x.ndim - rank
    return x.reshape(prod(x.shape[:lead]), prod(x.shape[lead:]))


def _divisor(
    xp: Any, where: Geometry, given: Any, padding: Any, include_pad: bool, dtype: Any
) -> Any:
    """The number each window's sum is divided by: a number, or an array over windows where it
    differs.

    A window counts what lies inside the given padding (include_pad) or the unpadded plane; never
    ceil_mode's overhang.
    """
    if given is not None:
        return given
    allowed = geometry(where.kernel, where.stride, padding, 1, where.spatial).padding
    counts: Any = 1
    rank = len(where.spatial)
    for axis, (n, k) in enumerate(zip(where.spatial, where.kernel, strict=True)):
        before, after = allowed[axis]
        low, high = (-before, n + after) if include_pad else (0, n)
        first, last = -where.padding[axis][0], (where.out[axis] - 1) * where.stride[axis]
        if low <= first and first + last + k <= high:
            counts = counts * k
        else:
            start = xp.arange(where.out[axis]) * where.stride[axis] + first
            lengths = xp.minimum(start + k, high) - xp.maximum(start, low)
            shape = (-1, *(1,) * (rank - 1 - axis))
            counts = counts * lengths.astype(dtype).reshape(shape)
    return counts


@op(
    method=False,
    linear=True,
    x=lambda xp, g, x_shape, rank, kernel, stride, padding, ceil_mode, include_pad, divisor: (
        xp.avg_pool_input(
            g,
            shape=x_shape,
            rank=rank,
            kernel=kernel,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            include_pad=include_pad,
            divisor=divisor,
        )
    ),
    takes="iuf",
)
def avg_pool(
    xp: Any,
    x: Array,
    *,
    rank: int,
    kernel: tuple[int, ...],
    stride: Any,
    padding: Any = 0,
    ceil_mode: bool = False,
    include_pad: bool = True,
    divisor: int | None = None,
) -> Array:
    """The mean of every window.

    x: (..., *spatial) with `rank` spatial axes, real. Result: (..., *windows), dtype of x; of
    integers, without the fraction.

    include_pad: padding counts as zeros of the mean; divisor: divide by this instead of the
    window's size.
    """
    where = pool_geometry(kernel, stride, padding, 1, ceil_mode, x.shape[-rank:])
    padded = pad_spatial(xp, x, where)
    first, *others = where.offsets()
    out = padded[(..., *where.window_slices(first))].copy()
    for offset in others:
        out += padded[(..., *where.window_slices(offset))]
    count = _divisor(xp, where, divisor, padding, include_pad, x.dtype)
    if x.dtype.kind in "iu":
        return xp.sign(out) * xp.sign(count) * (xp.absolute(out) // xp.absolute(count))
    out /= count
    return out


@op(
    method=False,
    linear=True,
    grad=lambda xp, g, rank, kernel, stride, padding, ceil_mode, include_pad, divisor: xp.avg_pool(
        g,
        rank=rank,
        kernel=kernel,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        include_pad=include_pad,
        divisor=divisor,
    ),
)
def avg_pool_input(
    xp: Any,
    grad: Array,
    *,
    shape: tuple[int, ...],
    rank: int,
    kernel: tuple[int, ...],
    stride: Any,
    padding: Any = 0,
    ceil_mode: bool = False,
    include_pad: bool = True,
    divisor: int | None = None,
) -> Array:
    """The gradient of `avg_pool` for its input. grad: (..., *windows). Result: exactly `shape`."""
    where = pool_geometry(kernel, stride, padding, 1, ceil_mode, tuple(shape[-rank:]))
    share = grad / _divisor(xp, where, divisor, padding, include_pad, grad.dtype)
    image = xp.zeros((*shape[:-rank], *where.padded), dtype=grad.dtype)
    for offset in where.offsets():
        image[(..., *where.window_slices(offset))] += share
    return xp.ascontiguousarray(image[(..., *where.inner_slices())])
