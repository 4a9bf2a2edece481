"""Exponentials, logarithms, roots and powers of one tensor."""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import composite, op


@op(torch="exp(input)", inplace=True, promote="float", x=lambda xp, g, out: g * out)
def exp(xp: Any, x: Any) -> Any:
    """e to the power x. x: any shape. Result: shape of x, floating or complex."""
    return xp.exp(x)


@op(
    torch="exp2(input)",
    aliases=("special.exp2",),
    inplace=True,
    promote="float",
    x=lambda xp, g, out: g * (out * 0.6931471805599453),
)
def exp2(xp: Any, x: Any) -> Any:
    """2 to the power x. x: any shape. Result: shape of x, floating or complex."""
    if x.dtype.kind == "f":
        return xp.exp2(x)
    power = xp.empty_like(x)  # part by part: a complex product makes NaN of infinities
    power.real, power.imag = x.real * 0.6931471805599453, x.imag * 0.6931471805599453
    return xp.exp(power)


@op(
    torch="expm1(input)",
    aliases=("special.expm1",),
    inplace=True,
    promote="float",
    x=lambda xp, g, out: g * (out + 1),
)
def expm1(xp: Any, x: Any) -> Any:
    """exp(x) - 1, exact near 0. x: any shape. Result: shape of x, floating or complex."""
    return xp.expm1(x)


@op(torch="log(input)", inplace=True, promote="float", x=lambda xp, g, x: g / x)
def log(xp: Any, x: Any) -> Any:
    """Natural logarithm, -inf at 0, NaN below.

    x: any shape. Result: shape of x, floating or complex.
    """
    return xp.log(x)


@op(
    torch="log2(input)",
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g / (x * 0.6931471805599453),
)
def log2(xp: Any, x: Any) -> Any:
    """Logarithm to base 2. x: any shape. Result: shape of x, floating or complex."""
    return xp.log2(x)


@op(
    torch="log10(input)",
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g / (x * 2.302585092994046),
)
def log10(xp: Any, x: Any) -> Any:
    """Logarithm to base 10. x: any shape. Result: shape of x, floating or complex."""
    return xp.log10(x)


@op(
    torch="log1p(input)",
    aliases=("special.log1p",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g / (x + 1),
)
def log1p(xp: Any, x: Any) -> Any:
    """log(1 + x), exact near 0. x: any shape. Result: shape of x, floating or complex."""
    return xp.log1p(x)


@op(torch="sqrt(input)", inplace=True, promote="float", x=lambda xp, g, out: g / (out * 2))
def sqrt(xp: Any, x: Any) -> Any:
    """Square root, NaN below 0. x: any shape. Result: shape of x, floating or complex."""
    return xp.sqrt(x)


@op(
    torch="rsqrt(input)",
    inplace=True,
    promote="float",
    x=lambda xp, g, out: g * (out * out * out) * -0.5,
)
def rsqrt(xp: Any, x: Any) -> Any:
    """1 / sqrt(x). x: any shape. Result: shape of x, floating or complex."""
    return 1 / xp.sqrt(x)


@op(torch="reciprocal(input)", inplace=True, promote="float", x=lambda xp, g, out: -g * (out * out))
def reciprocal(xp: Any, x: Any) -> Any:
    """1 / x. x: any shape. Result: shape of x, floating or complex."""
    return 1 / x


@op(torch="square(input)", inplace=True, x=lambda xp, g, x: g * (x * 2))
def square(xp: Any, x: Any) -> Any:
    """x * x. x: any shape. Result: shape and dtype of x, int64 of bool."""
    return x * x if x.dtype.kind != "b" else x.astype("i8")


@composite()
def logit_vjp(xp: Any, g: Any, x: Any, *, eps: float | None) -> Any:
    """Gradient of logit: g / (x (1 - x)), 0 where eps cut x off.

    g, x: one shape. Result: the same.
    """
    slope = g / (x * (1 - x))
    if eps is None:
        return slope
    return xp.masked_fill(slope, xp.logical_or(x < eps, x > 1 - eps), value=0)


@op(
    torch="logit(input, eps=None)",
    aliases=("special.logit",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x, eps: xp.logit_vjp(g, x, eps=eps),
    takes="f",
)
def logit(xp: Any, x: Any, *, eps: float | None = None) -> Any:
    """log(x / (1 - x)), NaN outside [0, 1]; with eps, of x cut off to [eps, 1 - eps].

    x: any shape, real. Result: shape of x, floating.
    """
    if eps is not None:
        x = xp.clip(x, eps, 1 - eps)
    return xp.log(x / (1 - x))
