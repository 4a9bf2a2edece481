"""Running sums and products along one dimension, and the scans their gradients are made of."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradhook.dtypes import raw
from gradhook.ops.arithmetic import complex_logaddexp
from gradhook.ops.axes import wrap
from gradhook.ops.table import composite, op


def _wide(x: Any, dtype: Any) -> Any:
    if dtype is not None:
        return x.astype(raw(dtype))
    return x.astype("i8") if x.dtype.kind in "biu" else x


@op(
    torch="cumsum(input, dim, *, dtype=None)",
    inplace=True,
    linear=True,
    x=lambda xp, g, axis: xp.reverse_cumsum(g, axis=axis),
)
def cumsum(xp: Any, x: Any, *, axis: int, dtype: Any = None) -> Any:
    """Running sum along `axis`. x: any shape. Result: shape of x, int64 for integers and bool."""
    x = _wide(x, dtype)
    return xp.cumsum(x, axis=wrap(axis, x.ndim), dtype=x.dtype) if x.ndim else x.copy()


@op(torch=None, linear=True, x=lambda xp, g, axis: xp.cumsum(g, axis=axis))
def reverse_cumsum(xp: Any, x: Any, *, axis: int) -> Any:
    """Running sum along `axis` from the end. x: any shape. Result: shape and dtype of x."""
    if x.ndim == 0:
        return x.copy()
    return xp.flip(xp.cumsum(xp.flip(x, axis), axis=axis, dtype=x.dtype), axis)


@op(
    torch="cumprod(input, dim, *, dtype=None)",
    inplace=True,
    x=lambda xp, g, x, axis: xp.cumprod_vjp(g, x, axis=axis),
)
def cumprod(xp: Any, x: Any, *, axis: int, dtype: Any = None) -> Any:
    """Running product along `axis`.

    x: any shape. Result: shape of x, int64 for integers and bool.
    """
    x = _wide(x, dtype)
    return xp.cumprod(x, axis=wrap(axis, x.ndim), dtype=x.dtype) if x.ndim else x.copy()


def along(
    axis: int, start: int | None, stop: int | None, step: int | None = None
) -> tuple[Any, ...]:
    """The index that slices one dimension (counted from the front) and keeps the others."""
    return (*(slice(None),) * axis, slice(start, stop, step))


@composite()
def reverse_recurrence(xp: Any, g: Any, factor: Any, *, axis: int) -> Any:
    """S with S[k] = g[k] + factor[k] * S[k + 1] along `axis`, by doubling in log2(n) steps.

    g: any shape with n at `axis`; factor: the same with n - 1. Result: shape of g.
    """
    n = g.shape[axis]
    last = xp.slice_view(g, index=along(axis, n - 1, n))
    factor = xp.concat(factor, xp.zeros_like(last), axis=axis)
    total, step = g, 1
    while step < n:
        later = xp.slice_view(total, index=along(axis, step, None))
        head = xp.slice_view(total, index=along(axis, 0, n - step))
        near = xp.slice_view(factor, index=along(axis, 0, n - step))
        far = xp.slice_view(factor, index=along(axis, step, None))
        tail = xp.slice_view(total, index=along(axis, n - step, None))
        total = xp.concat(head + near * later, tail, axis=axis)
        factor = xp.concat(near * far, xp.zeros_like(tail), axis=axis)
        step *= 2
    return total


@composite(fresh=True)
def cumprod_vjp(xp: Any, g: Any, x: Any, *, axis: int) -> Any:
    """Gradient of cumprod, right where elements are 0. g, x: one shape. Result: that shape.

    It is P * S with P the product before each element and S[k] = g[k] + x[k + 1] * S[k + 1].
    """
    if x.ndim == 0 or x.shape[axis] == 0:
        return xp.clone(g)
    axis = axis % x.ndim
    ones = xp.ones_like(xp.slice_view(x, index=along(axis, 0, 1)))
    ahead = xp.slice_view(x, index=along(axis, 0, x.shape[axis] - 1))
    before = xp.cumprod(xp.concat(ones, ahead, axis=axis), axis=axis)
    behind = xp.slice_view(x, index=along(axis, 1, None))
    return before * xp.reverse_recurrence(g, behind, axis=axis)


@composite()
def product_of_others(xp: Any, x: Any, *, axis: Any) -> Any:
    """For each element the product of the others along `axis`, by halving: no division.

    Result: shape of x.
    """
    if x.ndim == 0:
        return xp.ones_like(x)
    if isinstance(axis, tuple | list):
        (axis,) = axis
    axis = axis % x.ndim
    n = x.shape[axis]
    if n <= 1:
        return xp.ones_like(x)
    if n % 2:
        last = xp.slice_view(x, index=along(axis, 0, 1))
        even = xp.product_of_others(xp.concat(x, xp.ones_like(last), axis=axis), axis=axis)
        return xp.slice_view(even, index=along(axis, 0, n))
    left = xp.slice_view(x, index=along(axis, 0, None, 2))
    right = xp.slice_view(x, index=along(axis, 1, None, 2))
    others = xp.product_of_others(left * right, axis=axis)
    pairs = xp.stack(others * right, others * left, axis=axis + 1)
    return xp.reshape(pairs, shape=tuple(x.shape))


@composite(fresh=True)
def logcumsumexp_vjp(xp: Any, g: Any, x: Any, out: Any, *, axis: int) -> Any:
    """Gradient of logcumsumexp: exp(x - out) * S with S[k] = g[k] + exp(out[k] - out[k + 1]) S[k +
    1].

    g, x, out: one shape. Result: that shape. No exponential is above 1.
    """
    if x.ndim == 0 or x.shape[axis] == 0:
        return xp.clone(g)
    axis = axis % x.ndim
    here = xp.slice_view(out, index=along(axis, 0, x.shape[axis] - 1))
    following = xp.slice_view(out, index=along(axis, 1, None))
    total = xp.reverse_recurrence(g, xp.exp(here - following), axis=axis)
    return xp.exp(x - out) * total


@op(
    torch="logcumsumexp(input, dim)",
    promote="float",
    x=lambda xp, g, x, out, axis: xp.logcumsumexp_vjp(g, x, out, axis=axis),
    takes="fc",
)
def logcumsumexp(xp: Any, x: Any, *, axis: int) -> Any:
    """Logarithm of the running sum of exponentials along `axis`.

    x: floating or complex. Result: shape and dtype of x.
    """
    if x.ndim == 0:
        return x.copy()
    joined = xp.logaddexp if x.dtype.kind == "f" else partial(complex_logaddexp, xp)
    return scanned(xp, joined, x, wrap(axis, x.ndim))


def scanned(xp: Any, ufunc: Any, x: Any, axis: int) -> Any:
    """The running result of an associative function along `axis`; only NumPy's ufuncs have
    accumulate.
    """
    if isinstance(ufunc, np.ufunc):
        return ufunc.accumulate(x, axis=axis)
    n, step = x.shape[axis], 1
    while step < n:
        joined = ufunc(x[along(axis, step, None)], x[along(axis, 0, n - step)])
        x = xp.concatenate([x[along(axis, 0, step)], joined], axis=axis)
        step *= 2
    return x.copy()
