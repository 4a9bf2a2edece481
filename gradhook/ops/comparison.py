"""Comparisons, logic, bits, and tests of values: results of bool or integer dtype, no gradients."""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import op


@op(torch="eq(input, other)", operator="eq", inplace=True, promote="arith", x=None, y=None)
def equal(xp: Any, x: Any, y: Any) -> Any:
    """x == y. x, y: shapes that broadcast. Result: broadcast shape, bool."""
    return xp.equal(x, y)


@op(
    torch="ne(input, other)",
    aliases=("not_equal",),
    operator="ne",
    inplace=True,
    promote="arith",
    x=None,
    y=None,
)
def not_equal(xp: Any, x: Any, y: Any) -> Any:
    """x != y. x, y: shapes that broadcast. Result: broadcast shape, bool."""
    return xp.not_equal(x, y)


@op(
    torch="lt(input, other)",
    aliases=("less",),
    operator="lt",
    inplace=True,
    promote="arith",
    x=None,
    y=None,
    takes="biuf",
)
def less(xp: Any, x: Any, y: Any) -> Any:
    """x < y. x, y: real, shapes that broadcast. Result: broadcast shape, bool."""
    return xp.less(x, y)


@op(
    torch="le(input, other)",
    aliases=("less_equal",),
    operator="le",
    inplace=True,
    promote="arith",
    x=None,
    y=None,
    takes="biuf",
)
def less_equal(xp: Any, x: Any, y: Any) -> Any:
    """x <= y. x, y: real, shapes that broadcast. Result: broadcast shape, bool."""
    return xp.less_equal(x, y)


@op(
    torch="gt(input, other)",
    aliases=("greater",),
    operator="gt",
    inplace=True,
    promote="arith",
    x=None,
    y=None,
    takes="biuf",
)
def greater(xp: Any, x: Any, y: Any) -> Any:
    """x > y. x, y: real, shapes that broadcast. Result: broadcast shape, bool."""
    return xp.greater(x, y)


@op(
    torch="ge(input, other)",
    aliases=("greater_equal",),
    operator="ge",
    inplace=True,
    promote="arith",
    x=None,
    y=None,
    takes="biuf",
)
def greater_equal(xp: Any, x: Any, y: Any) -> Any:
    """x >= y. x, y: real, shapes that broadcast. Result: broadcast shape, bool."""
    return xp.greater_equal(x, y)


@op(torch="logical_and(input, other)", inplace=True, x=None, y=None)
def logical_and(xp: Any, x: Any, y: Any) -> Any:
    """x and y, nonzero being true.

    x, y: shapes that broadcast, any dtype. Result: broadcast shape, bool.
    """
    return xp.logical_and(x, y)


@op(torch="logical_or(input, other)", inplace=True, x=None, y=None)
def logical_or(xp: Any, x: Any, y: Any) -> Any:
    """x or y, nonzero being true.

    x, y: shapes that broadcast, any dtype. Result: broadcast shape, bool.
    """
    return xp.logical_or(x, y)


@op(torch="logical_xor(input, other)", inplace=True, x=None, y=None)
def logical_xor(xp: Any, x: Any, y: Any) -> Any:
    """Exactly one of x and y is nonzero.

    x, y: shapes that broadcast, any dtype. Result: broadcast shape, bool.
    """
    return xp.logical_xor(x, y)


@op(torch="logical_not(input)", inplace=True, x=None)
def logical_not(xp: Any, x: Any) -> Any:
    """x is zero. x: any shape, any dtype. Result: shape of x, bool."""
    return xp.logical_not(x)


@op(
    torch="bitwise_and(input, other)", operator="and", inplace=True, promote="arith", x=None, y=None
)
def bitwise_and(xp: Any, x: Any, y: Any) -> Any:
    """Bitwise and, logical for bool.

    x, y: integer or bool, shapes that broadcast. Result: promoted dtype.
    """
    return xp.bitwise_and(x, y)


@op(torch="bitwise_or(input, other)", operator="or", inplace=True, promote="arith", x=None, y=None)
def bitwise_or(xp: Any, x: Any, y: Any) -> Any:
    """Bitwise or, logical for bool.

    x, y: integer or bool, shapes that broadcast. Result: promoted dtype.
    """
    return xp.bitwise_or(x, y)


@op(
    torch="bitwise_xor(input, other)", operator="xor", inplace=True, promote="arith", x=None, y=None
)
def bitwise_xor(xp: Any, x: Any, y: Any) -> Any:
    """Bitwise exclusive or, logical for bool.

    x, y: integer or bool, broadcasting. Result: promoted dtype.
    """
    return xp.bitwise_xor(x, y)


@op(torch="bitwise_not(input)", operator="invert", inplace=True, x=None)
def bitwise_not(xp: Any, x: Any) -> Any:
    """Bitwise complement, logical for bool.

    x: integer or bool, any shape. Result: shape and dtype of x.
    """
    return xp.invert(x)


@op(
    torch="bitwise_left_shift(input, other)",
    operator="lshift",
    inplace=True,
    promote="arith",
    x=None,
    y=None,
)
def bitwise_left_shift(xp: Any, x: Any, y: Any) -> Any:
    """x shifted left by y bits. x, y: integer, shapes that broadcast. Result: promoted dtype."""
    return xp.left_shift(x, y)


@op(
    torch="bitwise_right_shift(input, other)",
    operator="rshift",
    inplace=True,
    promote="arith",
    x=None,
    y=None,
)
def bitwise_right_shift(xp: Any, x: Any, y: Any) -> Any:
    """x shifted right by y bits, keeping the sign.

    x, y: integer, broadcasting. Result: promoted dtype.
    """
    return xp.right_shift(x, y)


@op(torch="isnan(input)", x=None)
def isnan(xp: Any, x: Any) -> Any:
    """x is NaN. x: any shape. Result: shape of x, bool."""
    return xp.isnan(x)


@op(torch="isinf(input)", x=None)
def isinf(xp: Any, x: Any) -> Any:
    """x is infinite. x: any shape. Result: shape of x, bool."""
    return xp.isinf(x)


@op(torch="isfinite(input)", x=None)
def isfinite(xp: Any, x: Any) -> Any:
    """x is neither infinite nor NaN. x: any shape. Result: shape of x, bool."""
    return xp.isfinite(x)


@op(torch="isposinf(input)", x=None, takes="biuf")
def isposinf(xp: Any, x: Any) -> Any:
    """x is inf. x: any shape, real. Result: shape of x, bool."""
    return x == float("inf")


@op(torch="isneginf(input)", x=None, takes="biuf")
def isneginf(xp: Any, x: Any) -> Any:
    """x is -inf. x: any shape, real. Result: shape of x, bool."""
    return x == float("-inf")


@op(torch="isreal(input)", x=None)
def isreal(xp: Any, x: Any) -> Any:
    """The imaginary part is 0. x: any shape. Result: shape of x, bool."""
    return xp.isreal(x)


@op(torch="signbit(input)", x=None, takes="biuf")
def signbit(xp: Any, x: Any) -> Any:
    """The sign bit is set (also of -0.0). x: any shape, real. Result: shape of x, bool."""
    return xp.signbit(x) if x.dtype.kind == "f" else x < 0


@op(torch="isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)", x=None, y=None)
def isclose(
    xp: Any, x: Any, y: Any, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """|x - y| <= atol + rtol * |y|.

    x, y: one dtype, shapes that broadcast. Result: broadcast shape, bool.

    Errors: RuntimeError when the dtypes differ or a tolerance is negative.
    """
    if x.dtype != y.dtype:
        raise RuntimeError(f"{x.dtype.name} did not match {y.dtype.name}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(
            f"rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}"
        )
    return xp.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)


@op(torch="heaviside(input, values)", inplace=True, promote="same", x=None, y=None, takes="biuf")
def heaviside(xp: Any, x: Any, y: Any) -> Any:
    """0 below 0, y at 0, 1 above.

    x, y: one real dtype, shapes that broadcast. Result: broadcast shape.
    """
    return xp.where(x == 0, y, (x > 0).astype(x.dtype))


@op(torch="gcd(input, other)", inplace=True, promote="arith", x=None, y=None)
def gcd(xp: Any, x: Any, y: Any) -> Any:
    """Greatest common divisor.

    x, y: integer, shapes that broadcast. Result: broadcast shape, promoted dtype.
    """
    return xp.gcd(x, y)


@op(torch="lcm(input, other)", inplace=True, promote="arith", x=None, y=None)
def lcm(xp: Any, x: Any, y: Any) -> Any:
    """Least common multiple.

    x, y: integer, shapes that broadcast. Result: broadcast shape, promoted dtype.
    """
    return xp.lcm(x, y)


@op(
    torch="nextafter(input, other)",
    inplace=True,
    promote="same",
    linear=True,
    takes="f",
    x=lambda xp, g: g,
    y=lambda xp, g: xp.zeros_like(g),
)
def nextafter(xp: Any, x: Any, y: Any) -> Any:
    """The next number from x toward y; the gradient is that of x.

    x, y: one floating dtype, shapes that broadcast. Result: broadcast shape.
    """
    return xp.nextafter(x, y)
