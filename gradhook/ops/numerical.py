"""Integrals by trapezoids, slices cut to a norm, Vandermonde matrices, log of the normal
distribution, x log(1 + y), mantissa and exponent.
"""

from __future__ import annotations

from typing import Any

from gradhook.ops.axes import wrap
from gradhook.ops.table import composite, op


def _slice(xp: Any, x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return xp.slice_view(x, index=(*(slice(None),) * axis, slice(start, stop)))


def _areas(xp: Any, y: Any, x: Any, dx: Any, axis: int) -> Any:
    """Twice the area between neighbours along axis. Errors: IndexError, RuntimeError."""
    if not len(y.shape):
        raise IndexError(f"Dimension specified as {axis} but tensor has no dimensions")
    axis = wrap(axis, len(y.shape))
    sides = _slice(xp, y, axis, 1, None) + _slice(xp, y, axis, None, -1)
    if x is None:
        if isinstance(dx, bool | complex):
            raise RuntimeError("trapezoid: Currently, we only support dx as a real number.")
        return sides * dx
    if len(x.shape) == 0 or (len(x.shape) == 1 and x.shape[0] != y.shape[axis]):
        raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
    if len(x.shape) == 1:
        x = xp.reshape(x, shape=(x.shape[0], *(1,) * (len(y.shape) - 1 - axis)))
    elif len(x.shape) < len(y.shape):
        x = xp.reshape(x, shape=(*(1,) * (len(y.shape) - len(x.shape)), *x.shape))
    along = axis - len(y.shape) + len(x.shape)
    return sides * (_slice(xp, x, along, 1, None) - _slice(xp, x, along, None, -1))


def _refuse_both(name: str, x: Any, dx: Any) -> None:
    if x is not None and dx is not None:
        raise TypeError(f"{name}() takes x or dx, found both")


@composite(torch="trapezoid(y, x=None, *, dx=None, dim=-1)", aliases=("trapz",), method=False)
def trapezoid(xp: Any, y: Any, x: Any = None, *, dx: Any = None, axis: int = -1) -> Any:
    """Integral along dim by trapezoids: y at the points x, or at points dx (1) apart.

    x: one number a point, or as y. Result: y without dim, at least floating; 0 of one point.
    Errors: RuntimeError when x does not fit, IndexError for dim.
    """
    _refuse_both("trapezoid", x, dx)
    if len(y.shape) and y.shape[wrap(axis, len(y.shape))] == 0:
        return xp.sum(y * 0.5, axis=wrap(axis, len(y.shape)))
    areas = _areas(xp, y, x, 1 if dx is None else dx, axis)
    return xp.sum(areas, axis=wrap(axis, len(y.shape))) / 2


@composite(torch="cumulative_trapezoid(y, x=None, *, dx=None, dim=-1)", method=False)
def cumulative_trapezoid(xp: Any, y: Any, x: Any = None, *, dx: Any = None, axis: int = -1) -> Any:
    """Running integral along dim by trapezoids; parameters and errors as trapezoid.

    Result: dim one shorter, at least floating.
    """
    _refuse_both("cumulative_trapezoid", x, dx)
    areas = _areas(xp, y, x, 1 if dx is None else dx, axis)
    return xp.cumsum(areas, axis=wrap(axis, len(y.shape))) / 2


@composite(torch="renorm(input, p, dim, maxnorm)", inplace=True)
def renorm(xp: Any, x: Any, *, p: float, axis: int, maxnorm: float) -> Any:
    """x with each slice along dim whose p-norm is above maxnorm scaled down to it.

    x: at least 2 dimensions, floating or complex. Result: as x. Errors: RuntimeError, IndexError.
    """
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, found p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if len(x.shape) < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {len(x.shape)} dimensions"
        )
    if "int" in str(x.dtype) or "bool" in str(x.dtype):
        raise RuntimeError(f"renorm: expected a floating point or complex tensor, found {x.dtype}")
    axis = wrap(axis, len(x.shape))
    others = tuple(k for k in range(len(x.shape)) if k != axis)
    size = xp.vector_norm(x, ord=float(p), axis=others, keepdims=True)
    return x * xp.masked_fill(maxnorm / (size + 1e-7), size <= maxnorm, value=1)


@composite(torch="vander(x, N=None, increasing=False)", method=False)
def vander(xp: Any, x: Any, *, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns, N (as many as elements) of them, the highest first.

    x: (n,). Result: (n, N), int64 for integers. Errors: RuntimeError.
    """
    if len(x.shape) != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    wide = xp.cumsum(xp.reshape(x, shape=(x.shape[0], 1)), axis=1)  # integers become int64
    if n == 0:
        return xp.slice_view(wide, index=(slice(None), slice(0, 0)))
    ones = xp.ones_like(wide)
    powers = xp.broadcast_to(wide, shape=(x.shape[0], n - 1))
    columns = xp.cumprod(xp.concat(ones, powers, axis=1), axis=1)
    return columns if increasing else xp.flip(columns, dims=(1,))


@op(
    torch="special.log_ndtr(input)",
    method=False,
    promote="float",
    x=lambda xp, g, x: g * 0.7978845608028654 / xp.erfcx(x * -0.7071067811865476),
    takes="f",
)
def log_ndtr(xp: Any, x: Any) -> Any:
    """log of ndtr, exact for very negative x. x: any shape, real. Result: floating."""
    from gradhook.ops.special import erfc, erfcx

    if x.dtype.itemsize == 2:
        return log_ndtr(xp, x.astype("f4")).astype(x.dtype)
    low = xp.minimum(x, 1)
    left = xp.log(erfcx(xp, low * -0.7071067811865476) / 2) - low * low / 2
    right = xp.log1p(erfc(xp, xp.maximum(x, 0) * 0.7071067811865476) / -2)
    return xp.where(x < 1, left, right).astype(x.dtype, copy=False)


@op(
    torch="special.xlog1py(input, other)",
    method=False,
    promote="float",
    x=lambda xp, g, x, y: xp.masked_fill(g * xp.log1p(y), xp.logical_and(x == 0, y <= -1), value=0),
    y=lambda xp, g, x, y: g * x / (y + 1),
    takes="f",
)
def xlog1py(xp: Any, x: Any, y: Any) -> Any:
    """x * log(1 + y), 0 where x is 0 (NaN where y is).

    x, y: real, shapes that broadcast. Result: floating.
    """
    return xp.where((x == 0) & ~xp.isnan(y), xp.zeros((), x.dtype), x * xp.log1p(y))


@composite()
def frexp_vjp(xp: Any, g: Any, exponent: Any) -> Any:
    """Gradient of the mantissa: g / 2**exponent. Result: shape and dtype of g."""
    return g / xp.exp2(xp.cast(exponent, dtype=g.dtype))


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1: xp.frexp_vjp(g0, out1),
)
def frexp(xp: Any, x: Any) -> tuple[Any, Any]:
    """Mantissa in [0.5, 1) and exponent with x = mantissa * 2**exponent.

    x: floating. Results: shape of x, dtype of x and int32. Errors: RuntimeError for others.
    """
    if x.dtype.kind != "f":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = xp.frexp(x)
    exponent = xp.where(xp.isfinite(x), exponent, 0)
    return xp.asarray(mantissa), xp.asarray(exponent).astype("i4")
