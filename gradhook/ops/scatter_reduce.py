"""scatter_reduce: values reduced into places that an index names, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.ops.axes import accumulate_at
from gradhook.ops.scatter import _check, _flat, _lift, _refuse_dtypes, _sources
from gradhook.ops.table import composite, op

_UFUNCS = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


def _counts(xp: Any, x: Any, index: Any, src: Any, axis: int, include_self: bool) -> Any:
    """How many elements went into each place, at least 1."""
    start = xp.ones_like(x) if include_self else xp.zeros_like(x)
    n = xp.scatter_add(start, index, xp.ones_like(src), axis=axis)
    return xp.masked_fill(n, n == 0, value=1)


@composite()
def reduced_shares(
    xp: Any, g: Any, x: Any, index: Any, src: Any, out: Any, *, axis: int, include_self: bool
) -> Any:
    """g over the number of elements that equal the extremum in each place. Result: shape of x."""
    hit = xp.cast(
        src == xp.gather_padded(out, index, axis=axis, shape=tuple(src.shape)), dtype=g.dtype
    )
    own = xp.cast(x == out, dtype=g.dtype)
    if not include_self:
        own = xp.scatter_value(own, index, axis=axis, value=0)
    return g / xp.scatter_add(own, index, hit, axis=axis)


@composite()
def scatter_reduce_self_vjp(
    xp: Any,
    g: Any,
    x: Any,
    index: Any,
    src: Any,
    out: Any,
    *,
    axis: int,
    reduce: str,
    include_self: bool,
) -> Any:
    """Gradient of scatter_reduce for its first input. Result: shape of x."""
    if reduce == "mean":
        g = g / _counts(xp, x, index, src, axis, include_self)
    elif reduce == "prod":
        ones = xp.masked_fill(x, x == 0, value=1)
        others = xp.scatter_reduce(
            ones, index, src, axis=axis, reduce=reduce, include_self=include_self
        )
        g = g * others / ones
    elif reduce != "sum":
        shares = xp.reduced_shares(g, x, index, src, out, axis=axis, include_self=include_self)
        g = xp.cast(x == out, dtype=g.dtype) * shares
    return g if include_self else xp.scatter_value(g, index, axis=axis, value=0)


@composite()
def scatter_reduce_source_vjp(
    xp: Any,
    g: Any,
    x: Any,
    index: Any,
    src: Any,
    out: Any,
    *,
    axis: int,
    reduce: str,
    include_self: bool,
) -> Any:
    """Gradient of scatter_reduce for its source. Result: shape of src."""
    shape = tuple(src.shape)

    def gathered(value: Any) -> Any:
        return xp.gather_padded(value, index, axis=axis, shape=shape)

    if reduce == "sum":
        return gathered(g)
    if reduce == "mean":
        return gathered(g / _counts(xp, x, index, src, axis, include_self))
    if reduce != "prod":
        shares = xp.reduced_shares(g, x, index, src, out, axis=axis, include_self=include_self)
        return xp.cast(src == gathered(out), dtype=g.dtype) * gathered(shares)
    zero = src == 0
    zeros = gathered(
        xp.scatter_add(xp.zeros_like(x), index, xp.cast(zero, dtype=src.dtype), axis=axis)
    )
    single = xp.logical_and(zero, zeros == 1)
    ones = xp.masked_fill(src, single, value=1)
    others = xp.scatter_reduce(x, index, ones, axis=axis, reduce=reduce, include_self=include_self)
    return xp.where(
        single, gathered(g * others), gathered(g * out) / xp.masked_fill(src, zero, value=1)
    )


@op(
    torch=None,
    index=None,
    x=lambda xp, g, x, index, src, out, axis, reduce, include_self: xp.scatter_reduce_self_vjp(
        g, x, index, src, out, axis=axis, reduce=reduce, include_self=include_self
    ),
    src=lambda xp, g, x, index, src, out, axis, reduce, include_self: xp.scatter_reduce_source_vjp(
        g, x, index, src, out, axis=axis, reduce=reduce, include_self=include_self
    ),
)
def scatter_reduce(
    xp: Any, x: Any, index: Any, src: Any, *, axis: int, reduce: str, include_self: bool = True
) -> Any:
    """x with src reduced into it at `index` along `axis`: "sum", "prod", "mean", "amax", "amin".

    Result: as x.

    Errors: RuntimeError for another reduction, or as scatter.
    """
    if reduce not in _UFUNCS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    _refuse_dtypes("scatter_reduce", x, src)
    if reduce in ("amax", "amin") and x.dtype.kind == "c":
        raise NotImplementedError(
            f"scatter_reduce of {reduce} is not implemented for complex numbers: they have no order"
        )
    axis = _check("scatter_reduce", x.shape, index, axis)
    result = xp.array(x, order="C", copy=True)
    if not index.size:
        return result
    shape, at = _lift(x.shape, index)
    flat = _flat(xp, shape, at, axis)
    values, target = _sources(xp, src, index).reshape(at.shape), result.reshape(-1)
    if not include_self:
        target[flat] = _start(reduce, x.dtype)
    if _UFUNCS[reduce] == "add":
        accumulate_at(xp, target, flat.ravel(), values.ravel())
    else:  # within one step along the axis no place occurs twice; CuPy has no multiply.at
        ufunc = getattr(xp, _UFUNCS[reduce])
        for k in range(at.shape[axis]):
            here = (*(slice(None),) * axis, k)
            target[flat[here]] = ufunc(target[flat[here]], values[here])
    if reduce == "mean":
        counts = xp.full(target.shape, int(include_self), "i8")
        xp.add.at(counts, flat.ravel(), 1)
        counts = xp.maximum(counts, 1)
        target[...] = target / counts if x.dtype.kind in "fc" else target // counts
    return result


def _start(reduce: str, dtype: Any) -> Any:
    """What a place holds before anything is reduced into it."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    if dtype.kind == "b":
        return reduce == "amin"
    return np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max
