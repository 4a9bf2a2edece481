"""Correlation of an array with weights, with SciPy's boundary modes, and its two transposes.

With t = sum over i and k of y[i] weights[k] x[i + k - center], x continued beyond its ends, each op
is the derivative of t by one factor, and so is each of its gradients. Through scipy.ndimage on
NumPy, cupyx.scipy.ndimage on CuPy.
"""

from __future__ import annotations

from typing import Any

from gradhook.libraries import scipy
from gradhook.ops.boundary import extended, folded
from gradhook.ops.table import op

Array = Any
Origin = tuple[int, ...]


def _correlated(xp: Any, x: Array, weights: Array, mode: str, origin: Origin) -> Array:
    """out[i] = sum_k weights[k] x[i + k - K // 2 - origin], nothing conjugated."""
    if not x.size:
        return xp.zeros(x.shape, x.dtype)
    if x.dtype.kind == "c":
        weights = weights.conj()  # SciPy's correlate conjugates them again
    ndimage = scipy(xp, "ndimage")
    long = [k for k, n in enumerate(weights.shape) if n != 1]
    if len(long) == 1:
        axis = long[0]
        return ndimage.correlate1d(
            x, weights.reshape(-1), axis, mode=mode, cval=0.0, origin=origin[axis]
        )
    return ndimage.correlate(x, weights, mode=mode, cval=0.0, origin=origin)


def _widths(shape: tuple[int, ...], origin: Origin) -> tuple[tuple[int, int], ...]:
    """How many elements before and after each axis the weights reach."""
    centers = [n // 2 + o for n, o in zip(shape, origin, strict=True)]
    return tuple((c, n - 1 - c) for n, c in zip(shape, centers, strict=True))


def _wide(x: Array) -> Array:
    """16-bit floats in float32: SciPy has no filters for them."""
    return x.astype("f4") if x.dtype.itemsize == 2 else x


@op(
    torch=None,
    method=False,
    promote="float",
    x=lambda xp, g, weights, mode, origin: xp.filter_correlate_input(
        g, weights, mode=mode, origin=origin
    ),
    weights=lambda xp, g, x, weights_shape, mode, origin: xp.filter_correlate_weights(
        g, x, mode=mode, origin=origin, shape=weights_shape
    ),
)
def filter_correlate(xp: Any, x: Array, weights: Array, *, mode: str, origin: Origin) -> Array:
    """x correlated with weights; nothing is conjugated.

    x: n dimensions; weights: as many, none empty; mode: reflect, constant (zeros), nearest, mirror
    or wrap; origin: a shift of the weights an axis. Result: shape of x. Source:
    scipy.ndimage.correlate.
    """
    return _correlated(xp, _wide(x), _wide(weights), mode, origin).astype(x.dtype, copy=False)


@op(
    torch=None,
    method=False,
    promote="float",
    y=lambda xp, g, weights, mode, origin: xp.filter_correlate(
        g, weights, mode=mode, origin=origin
    ),
    weights=lambda xp, g, y, weights_shape, mode, origin: xp.filter_correlate_weights(
        y, g, mode=mode, origin=origin, shape=weights_shape
    ),
)
def filter_correlate_input(
    xp: Any, y: Array, weights: Array, *, mode: str, origin: Origin
) -> Array:
    """The transpose of filter_correlate for fixed weights: y's shape is that of the result.

    Each output sends its value back to the elements it was made of, through the boundary.
    """
    kind = y.dtype
    y, weights = _wide(y), _wide(weights)
    if not y.size:
        return xp.zeros(y.shape, kind)
    padded = xp.pad(y, [(0, n - 1) for n in weights.shape])
    last = tuple((n - 1) // 2 for n in weights.shape)
    flipped = xp.flip(weights, axis=tuple(range(weights.ndim)))
    full = _correlated(xp, padded, flipped, "constant", last)
    return folded(xp, full, _widths(weights.shape, origin), mode).astype(kind, copy=False)


@op(
    torch=None,
    method=False,
    promote="float",
    y=lambda xp, g, x, mode, origin: xp.filter_correlate(x, g, mode=mode, origin=origin),
    x=lambda xp, g, y, mode, origin: xp.filter_correlate_input(y, g, mode=mode, origin=origin),
)
def filter_correlate_weights(
    xp: Any, y: Array, x: Array, *, mode: str, origin: Origin, shape: tuple[int, ...]
) -> Array:
    """The transpose of filter_correlate for a fixed x: what each weight was multiplied with.

    y, x: one shape. Result: `shape`, that of the weights: a sum over all elements for each.
    """
    kind = x.dtype
    wide = extended(xp, _wide(x), _widths(shape, origin), mode)
    y = _wide(y)
    found, products = xp.zeros(shape, y.dtype), xp.empty_like(y)
    for k in _positions(shape):
        window = tuple(slice(o, o + n) for o, n in zip(k, y.shape, strict=True))
        xp.multiply(y, wide[window], out=products)  # memory that is warm after the first one
        found[k] = products.sum()
    return found.astype(kind, copy=False)


def _positions(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for n in shape:
        found = [(*k, i) for k in found for i in range(n)]
    return found
