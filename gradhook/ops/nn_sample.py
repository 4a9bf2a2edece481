"""Sampling of planes and volumes at points of a grid (grid_sample)."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from gradhook.ops.axes import accumulate_at
from gradhook.ops.table import composite, op

Array = Any


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, index, x_shape: xp.planes_put(g, index, shape=x_shape),
    index=None,
)
def planes_take(xp: Any, x: Array, index: Array) -> Array:
    """The elements of each plane of x at flat indices that its channels share; 0 at negative ones.

    x: (batch, channels, *spatial); index: (batch, *places) int64. Result: (batch, channels,
    *places), dtype of x.
    """
    n, c = x.shape[:2]
    at = index.reshape(n, 1, prod(index.shape[1:]))
    starts = xp.arange(n * c).reshape(n, c, 1) * prod(x.shape[2:])
    if not at.size or not x.size:
        return xp.zeros((n, c, *index.shape[1:]), x.dtype)
    found = xp.take(x.reshape(-1), xp.maximum(at, 0) + starts)
    found = xp.where(at < 0, xp.zeros((), x.dtype), found)
    return found.reshape(n, c, *index.shape[1:])


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, index: xp.planes_take(g, index),
    index=None,
)
def planes_put(xp: Any, x: Array, index: Array, *, shape: Any) -> Array:
    """Sums of x at flat indices of each plane of zeros: the transpose of planes_take.

    x: (batch, channels, *places); index: (batch, *places) int64. Result: `shape`, dtype of x.
    """
    n, c = shape[:2]
    size = prod(shape[2:])
    room = size + 1  # the last one takes what lies outside
    at = xp.where(index < 0, size, index).reshape(n, 1, prod(index.shape[1:]))
    starts = xp.arange(n * c).reshape(n, c, 1) * room
    total = xp.zeros(n * c * room, x.dtype)
    accumulate_at(xp, total, (at + starts).reshape(-1), x.reshape(-1))
    return total.reshape(n, c, room)[:, :, :size].reshape(tuple(shape))


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, index, x_shape: xp.planes_put(g, index, shape=x_shape),
    index=None,
    grid=lambda xp, g, grid: xp.zeros_like(grid),
)
def planes_nearest(xp: Any, x: Array, index: Array, grid: Array) -> Array:
    """planes_take of indices that came from `grid`, whose gradient is 0.

    grid: any shape, floating. Result: as planes_take.
    """
    return planes_take(xp, x, index)


@op(torch=None, coordinates=None)
def plane_index(xp: Any, *coordinates: Array, spatial: Any) -> Array:
    """The flat index of whole coordinates in a plane or volume, -1 outside and for NaN.

    coordinates: one array of whole floating numbers a spatial axis, of one shape. Result: that
    shape, int64.
    """
    inside, flat = True, 0
    for at, size in zip(coordinates, spatial, strict=True):
        inside = inside & (at >= 0) & (at <= size - 1)
    for at, size in zip(coordinates, spatial, strict=True):
        flat = flat * size + xp.where(inside, at, 0).astype("i8")
    return xp.where(inside, flat, -1)


@op(
    torch=None,
    x=lambda xp, g, x, high: xp.masked_fill(g, xp.logical_or(x <= 0, x >= high), value=0),
)
def clip_open(xp: Any, x: Array, *, high: float) -> Array:
    """x raised to 0 and lowered to `high`; no gradient at the limits themselves, unlike clip.

    x: any shape, floating. Result: shape and dtype of x. Source: PyTorch's grid_sample.
    """
    return xp.clip(x, 0, high).astype(x.dtype, copy=False)


def _reflected(xp: Any, x: Array, size: int, align_corners: bool) -> Array:
    """x reflected at the ends of an axis until it is inside, half a pixel further out where corners
    are not aligned. xp: the table's functions or an array module's.
    """
    low = 0.0 if align_corners else -0.5
    span = float(size - 1 if align_corners else size)
    if span == 0:
        return x * 0.0
    distance = xp.absolute(x - low)
    flips = xp.floor(distance / span)
    rest = xp.fmod(distance, span)
    return xp.where(xp.fmod(flips, 2.0) == 0, rest + low, (span + low) - rest)


@op(torch=None, x=None)
def padded_place(xp: Any, x: Array, *, size: int, padding: str, align_corners: bool) -> Array:
    """Where padding finds what lies at the whole coordinate x of an axis.

    x: any shape, floating. Result: shape and dtype of x; outside the axis for padding "zeros".
    """
    if padding == "reflection":
        x = _reflected(xp, x, size, align_corners).astype(x.dtype, copy=False)
    return x.copy() if padding == "zeros" else xp.clip(x, 0, size - 1).astype(x.dtype, copy=False)


def _pixel(xp: Any, grid: Array, size: int, align_corners: bool) -> Array:
    """Coordinates in pixels of those from -1 to 1."""
    if align_corners:
        return (grid + 1) * ((size - 1) / 2)
    return (grid + 1) * (size / 2) - 0.5


def _bilinear(xp: Any, x: Array, points: list[Array]) -> Array:
    spatial, total = tuple(x.shape[2:]), None
    low = [xp.floor(p) for p in points]
    share = [p - whole for p, whole in zip(points, low, strict=True)]
    for corner in product((0, 1), repeat=len(points)):
        weight = None
        for bit, s in zip(corner, share, strict=True):
            factor = s if bit else 1 - s
            weight = factor if weight is None else weight * factor
        places = [at + bit if bit else at for bit, at in zip(corner, low, strict=True)]
        values = xp.planes_take(x, xp.plane_index(*places, spatial=spatial))
        term = values * xp.expand_dims(weight, axis=1)
        total = term if total is None else total + term
    return total


def _cubic_weights(t: Array, a: float = -0.75) -> list[Array]:
    """Keys' weights of the places -1, 0, 1, 2 for a point t after place 0."""
    after = 1 - t
    return [
        ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
        ((a + 2) * t - (a + 3)) * t * t + 1,
        ((a + 2) * after - (a + 3)) * after * after + 1,
        ((a * (after + 1) - 5 * a) * (after + 1) + 8 * a) * (after + 1) - 4 * a,
    ]


def _bicubic(xp: Any, x: Array, points: list[Array], padding: str, align_corners: bool) -> Array:
    spatial = tuple(x.shape[2:])
    weights, places = [], []
    for point, size in zip(points, spatial, strict=True):
        low = xp.floor(point)
        weights.append([xp.expand_dims(w, axis=1) for w in _cubic_weights(point - low)])
        places.append([
            xp.padded_place(low + k, size=size, padding=padding, align_corners=align_corners)
            for k in range(-1, 3)
        ])  # fmt: skip
    total = None
    for i, down in enumerate(weights[0]):
        row = None
        for j, along in enumerate(weights[1]):
            index = xp.plane_index(places[0][i], places[1][j], spatial=spatial)
            term = xp.planes_take(x, index) * along
            row = term if row is None else row + term
        total = row * down if total is None else total + row * down
    return total


@composite()
def grid_sample(
    xp: Any, x: Array, grid: Array, *, mode: str, padding: str, align_corners: bool
) -> Array:
    """x at the points of a grid. x: (batch, channels, *spatial), floating, 2 spatial axes or 3.

    grid: (batch, *places, spatial axes), the last spatial axis first, from -1 to 1 across x. mode:
    "bilinear", "nearest", "bicubic" (2 axes); padding: "zeros", "border", "reflection". Result:
    (batch, channels, *places). Source: torch.nn.functional.grid_sample.
    """
    spatial = tuple(x.shape[2:])
    points = []
    for k, size in enumerate(spatial):
        point = _pixel(xp, grid[..., len(spatial) - 1 - k], size, align_corners)
        if mode != "bicubic":
            if padding == "reflection":
                point = _reflected(xp, point, size, align_corners)
            if padding != "zeros":
                point = xp.clip_open(point, high=float(size - 1))
        points.append(point)
    if mode == "bicubic":
        return _bicubic(xp, x, points, padding, align_corners)
    if mode == "bilinear":
        return _bilinear(xp, x, points)
    index = xp.plane_index(*[xp.round(p) for p in points], spatial=spatial)
    return xp.planes_nearest(x, index, grid)
