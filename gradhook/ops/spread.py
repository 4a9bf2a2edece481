"""Variance and standard deviation, alone and with the mean."""

from __future__ import annotations

from typing import Any

from gradhook.dtypes import accumulation
from gradhook.ops.axes import count, wrap_all
from gradhook.ops.reduction import mean
from gradhook.ops.table import composite, op


@composite(fresh=True)
def var_vjp(xp: Any, g: Any, x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
    """Gradient of var: g * 2 (x - mean) / (n - correction).

    g: the reduced shape. Result: shape and dtype of x.
    """
    divisor = count(x.shape, axis) - correction
    scaled = g * (2 / divisor) if divisor > 0 else g * float("nan")
    centred = x - xp.mean(x, axis=axis, keepdims=True)
    return xp.expand_reduced(scaled, shape=tuple(x.shape), axis=axis, keepdims=keepdims) * centred


@op(
    torch=None,
    x=lambda xp, g, x, axis, correction, keepdims: xp.var_vjp(
        g, x, axis=axis, correction=correction, keepdims=keepdims
    ),
)
def var(xp: Any, x: Any, *, axis: Any = None, correction: float = 1, keepdims: bool = False) -> Any:
    """Mean squared distance from the mean, over n - correction.

    x: any shape, floating or complex. Result: reduced shape, real.

    Errors: RuntimeError for integers and bool.
    """
    if x.dtype.kind not in "fc":
        raise RuntimeError("std and var only support floating point and complex dtypes")
    axes = wrap_all(axis, x.ndim)
    wide = x.astype(accumulation(x.dtype), copy=False)
    n = count(x.shape, axes)
    centred = wide - wide.sum(axis=axes, keepdims=True) / n if n else wide
    squares = (centred * centred.conj()).real if x.dtype.kind == "c" else centred * centred
    total = squares.sum(axis=axes, keepdims=keepdims)
    divisor = n - correction if n - correction > 0 else 0
    return (total / total.dtype.type(divisor)).astype(x.real.dtype, copy=False)


@composite(fresh=True)
def std_vjp(
    xp: Any, g: Any, x: Any, out: Any, *, axis: Any, correction: float, keepdims: bool
) -> Any:
    """Gradient of std: that of var over 2 out, and 0 where out is 0.

    g, out: the reduced shape. Result: shape and dtype of x.
    """
    by_var = xp.masked_fill(g / (out * 2), out == 0, value=0)
    return xp.var_vjp(by_var, x, axis=axis, correction=correction, keepdims=keepdims)


@op(
    torch=None,
    x=lambda xp, g, x, out, axis, correction, keepdims: xp.std_vjp(
        g, x, out, axis=axis, correction=correction, keepdims=keepdims
    ),
)
def std(xp: Any, x: Any, *, axis: Any = None, correction: float = 1, keepdims: bool = False) -> Any:
    """Square root of var; the gradient at 0 is 0.

    x: floating or complex. Result: reduced shape, real dtype.
    """
    return xp.sqrt(var(xp, x, axis=axis, correction=correction, keepdims=keepdims))


@op(
    torch=None,
    n_outputs=2,
    x=lambda xp, g0, g1, x, x_shape, axis, correction, keepdims: (
        xp.var_vjp(g0, x, axis=axis, correction=correction, keepdims=keepdims)
        + xp.expand_mean(g1, shape=x_shape, axis=axis, keepdims=keepdims)
    ),
)
def var_mean(
    xp: Any, x: Any, *, axis: Any = None, correction: float = 1, keepdims: bool = False
) -> tuple[Any, Any]:
    """var and mean, as one node with two outputs.

    x: floating or complex. Results: reduced shape; var is real. Errors: as var.
    """
    spread = var(xp, x, axis=axis, correction=correction, keepdims=keepdims)
    return spread, mean(xp, x, axis=axis, keepdims=keepdims)


@op(
    torch=None,
    n_outputs=2,
    x=lambda xp, g0, g1, x, x_shape, out0, axis, correction, keepdims: (
        xp.std_vjp(g0, x, out0, axis=axis, correction=correction, keepdims=keepdims)
        + xp.expand_mean(g1, shape=x_shape, axis=axis, keepdims=keepdims)
    ),
)
def std_mean(
    xp: Any, x: Any, *, axis: Any = None, correction: float = 1, keepdims: bool = False
) -> tuple[Any, Any]:
    """std and mean, as one node with two outputs; the gradient of std at 0 is 0.

    x: floating or complex. Results: reduced shape; std is real. Errors: as var.
    """
    spread = std(xp, x, axis=axis, correction=correction, keepdims=keepdims)
    return spread, mean(xp, x, axis=axis, keepdims=keepdims)
