"""Trigonometric and hyperbolic functions and their inverses, in radians."""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import op


@op(torch="sin(input)", inplace=True, promote="float", x=lambda xp, g, x: g * xp.cos(x))
def sin(xp: Any, x: Any) -> Any:
    """Sine. x: any shape, radians. Result: shape of x, floating or complex."""
    return xp.sin(x)


@op(torch="cos(input)", inplace=True, promote="float", x=lambda xp, g, x: g * -xp.sin(x))
def cos(xp: Any, x: Any) -> Any:
    """Cosine. x: any shape, radians. Result: shape of x, floating or complex."""
    return xp.cos(x)


@op(torch="tan(input)", inplace=True, promote="float", x=lambda xp, g, out: g * (1 + out * out))
def tan(xp: Any, x: Any) -> Any:
    """Tangent. x: any shape, radians. Result: shape of x, floating or complex."""
    return xp.tan(x)


@op(
    torch="asin(input)",
    aliases=("arcsin",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g * xp.rsqrt(1 - x * x),
)
def asin(xp: Any, x: Any) -> Any:
    """Inverse sine, NaN outside [-1, 1].

    x: any shape. Result: shape of x, radians, floating or complex.
    """
    return xp.arcsin(x)


@op(
    torch="acos(input)",
    aliases=("arccos",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g * -xp.rsqrt(1 - x * x),
)
def acos(xp: Any, x: Any) -> Any:
    """Inverse cosine, NaN outside [-1, 1].

    x: any shape. Result: shape of x, radians, floating or complex.
    """
    return xp.arccos(x)


@op(
    torch="atan(input)",
    aliases=("arctan",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g / (1 + x * x),
)
def atan(xp: Any, x: Any) -> Any:
    """Inverse tangent. x: any shape. Result: shape of x, radians, floating or complex."""
    return xp.arctan(x)


@op(torch="sinh(input)", inplace=True, promote="float", x=lambda xp, g, x: g * xp.cosh(x))
def sinh(xp: Any, x: Any) -> Any:
    """Hyperbolic sine. x: any shape. Result: shape of x, floating or complex."""
    return xp.sinh(x)


@op(torch="cosh(input)", inplace=True, promote="float", x=lambda xp, g, x: g * xp.sinh(x))
def cosh(xp: Any, x: Any) -> Any:
    """Hyperbolic cosine. x: any shape. Result: shape of x, floating or complex."""
    return xp.cosh(x)


@op(
    torch="tanh(input)",
    aliases=("nn.functional.tanh",),
    inplace=True,
    promote="float",
    x=lambda xp, g, out: g * (1 - out * out),
)
def tanh(xp: Any, x: Any) -> Any:
    """Hyperbolic tangent. x: any shape. Result: shape of x, floating or complex."""
    return xp.tanh(x)


@op(
    torch="asinh(input)",
    aliases=("arcsinh",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g * xp.rsqrt(x * x + 1),
)
def asinh(xp: Any, x: Any) -> Any:
    """Inverse hyperbolic sine. x: any shape. Result: shape of x, floating or complex."""
    return xp.arcsinh(x)


@op(
    torch="acosh(input)",
    aliases=("arccosh",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g * (xp.rsqrt(x - 1) * xp.rsqrt(x + 1)),
)
def acosh(xp: Any, x: Any) -> Any:
    """Inverse hyperbolic cosine, NaN below 1.

    x: any shape. Result: shape of x, floating or complex.
    """
    return xp.arccosh(x)


@op(
    torch="atanh(input)",
    aliases=("arctanh",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x: g / (1 - x * x),
)
def atanh(xp: Any, x: Any) -> Any:
    """Inverse hyperbolic tangent, NaN outside [-1, 1].

    x: any shape. Result: shape of x, floating or complex.
    """
    return xp.arctanh(x)


@op(
    torch="deg2rad(input)",
    inplace=True,
    promote="float",
    linear=True,
    x=lambda xp, g: g * 0.017453292519943295,
    takes="biuf",
)
def deg2rad(xp: Any, x: Any) -> Any:
    """Degrees to radians. x: any shape, real. Result: shape of x, floating."""
    return x * 0.017453292519943295


@op(
    torch="rad2deg(input)",
    inplace=True,
    promote="float",
    linear=True,
    x=lambda xp, g: g * 57.29577951308232,
    takes="biuf",
)
def rad2deg(xp: Any, x: Any) -> Any:
    """Radians to degrees. x: any shape, real. Result: shape of x, floating."""
    return x * 57.29577951308232
