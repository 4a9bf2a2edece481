"""Arithmetic of two tensors with broadcasting: add to power, remainders, their integer rules."""

from __future__ import annotations

from typing import Any

from gradhook.dtypes import raw
from gradhook.ops.table import composite, op


@op(
    torch="add(input, other)",
    operator="add",
    inplace=True,
    promote="arith",
    linear=True,
    x=lambda xp, g: g,
    y=lambda xp, g: g,
)
def add(xp: Any, x: Any, y: Any) -> Any:
    """Sum of two tensors.

    x, y: shapes that broadcast, any dtype. Result: the broadcast shape, the promoted dtype.
    """
    return x + y


@op(
    torch="sub(input, other)",
    aliases=("subtract",),
    operator="sub",
    inplace=True,
    promote="arith",
    linear=True,
    x=lambda xp, g: g,
    y=lambda xp, g: -g,
)
def subtract(xp: Any, x: Any, y: Any) -> Any:
    """Difference x - y.

    x, y: shapes that broadcast, not both bool. Result: broadcast shape, promoted dtype.

    Errors: RuntimeError for two bool tensors.
    """
    try:
        return x - y
    except TypeError as error:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        ) from error


@op(
    torch="mul(input, other)",
    aliases=("multiply",),
    operator="mul",
    inplace=True,
    promote="arith",
    x=lambda xp, g, y: g * y,
    y=lambda xp, g, x: g * x,
)
def multiply(xp: Any, x: Any, y: Any) -> Any:
    """Product of two tensors.

    x, y: shapes that broadcast, any dtype. Result: broadcast shape, promoted dtype.
    """
    return x * y


@op(
    torch="div(input, other)",
    aliases=("divide", "true_divide"),
    operator="truediv",
    inplace=True,
    promote="float",
    x=lambda xp, g, y: g / y,
    y=lambda xp, g, x, y: -g * ((x / y) / y),  # not of out: it may be written in place after
)
def divide(xp: Any, x: Any, y: Any) -> Any:
    """True quotient x / y.

    x, y: shapes that broadcast. Result: broadcast shape, floating or complex dtype.
    """
    return x / y


@op(
    torch="floor_divide(input, other)",
    operator="floordiv",
    inplace=True,
    promote="arith",
    x=lambda xp, g: xp.zeros_like(g),
    y=lambda xp, g: xp.zeros_like(g),
    takes="biuf",
)
def floor_divide(xp: Any, x: Any, y: Any) -> Any:
    """Floor of x / y.

    x, y: real, shapes that broadcast. Result: broadcast shape, promoted dtype, zero gradient.

    Errors: RuntimeError for an integer division by zero (NumPy).
    """
    _refuse_zero_divisor(x, y)
    return xp.floor_divide(x, y)


@op(
    torch=None,
    promote="arith",
    x=lambda xp, g: xp.zeros_like(g),
    y=lambda xp, g: xp.zeros_like(g),
    takes="biuf",
)
def trunc_divide(xp: Any, x: Any, y: Any) -> Any:
    """Quotient x / y rounded toward zero.

    x, y: real, broadcasting. Result: promoted dtype, zero gradient.
    """
    if x.dtype.kind == "f":
        return xp.trunc(x / y)
    _refuse_zero_divisor(x, y)
    quotient = xp.floor_divide(x, y)
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(quotient.dtype)


@op(
    torch="remainder(input, other)",
    operator="mod",
    inplace=True,
    promote="arith",
    x=lambda xp, g: g,
    y=lambda xp, g, x, y: -g * xp.floor_divide(x, y),
    takes="biuf",
)
def remainder(xp: Any, x: Any, y: Any) -> Any:
    """Remainder with the sign of y: x - y * floor(x / y).

    x, y: real, shapes that broadcast. Result: promoted dtype.

    Errors: RuntimeError for an integer remainder by zero (NumPy).
    """
    _refuse_zero_divisor(x, y)
    return xp.remainder(x, y)


@op(
    torch="fmod(input, other)",
    inplace=True,
    promote="arith",
    x=lambda xp, g: g,
    y=lambda xp, g, x, y: -g * xp.trunc_divide(x, y),
    takes="biuf",
)
def fmod(xp: Any, x: Any, y: Any) -> Any:
    """Remainder with the sign of x.

    x, y: real, shapes that broadcast. Result: broadcast shape, promoted dtype.

    Errors: RuntimeError for an integer remainder by zero (NumPy).
    """
    _refuse_zero_divisor(x, y)
    return xp.fmod(x, y)


def _refuse_zero_divisor(x: Any, y: Any) -> None:
    # CuPy is not asked: looking at values there is a sync, and torch's CUDA results are undefined.
    if y.dtype.kind in "iu" and type(y).__module__ == "numpy" and not y.all():
        raise RuntimeError("ZeroDivisionError")


@op(
    torch="pow(input, exponent)",
    operator="pow",
    inplace=True,
    promote="arith",
    x=lambda xp, g, x, y: xp.masked_fill(g * (y * x ** (y - 1)), y == 0, value=0),
    y=lambda xp, g, x, y, out: xp.masked_fill(
        g * (out * xp.log(x)), xp.logical_and(x == 0, xp.real_or_self(y) >= 0), value=0
    ),
)
def power(xp: Any, x: Any, y: Any) -> Any:
    """x to the power y. x, y: shapes that broadcast. Result: broadcast shape, promoted dtype.

    The gradient is 0 where the exponent is 0, and that of the exponent where the base is 0 (as
    PyTorch). Integers to negative powers are rounded toward 0. Errors: RuntimeError for two bools.
    """
    if x.dtype.kind == "b":
        raise RuntimeError("\"pow\" not implemented for 'Bool'; cast one of them, with .int()")
    try:
        return x**y
    except ValueError:  # NumPy refuses integers to negative powers
        unit = xp.where(x == 1, 1, xp.where(x == -1, 1 - 2 * (y & 1), 0))
        return xp.where(y < 0, unit.astype(x.dtype), x ** xp.maximum(y, 0))


@op(
    torch=None,
    inplace=True,
    x=lambda xp, g, x, exponent: (
        g * (exponent * x ** (exponent - 1)) if exponent else xp.zeros_like(g)
    ),
)
def pow(xp: Any, x: Any, *, exponent: int | float) -> Any:
    """x to the power of a number, which NumPy squares, roots and inverts 20 times as fast as
    `power`.

    x: any shape, floating or complex. exponent: a Python number. Result: shape and dtype of x.
    """
    return x**exponent


@composite()
def real_or_self(xp: Any, x: Any) -> Any:
    """The real part of a complex tensor, a real one as it is. Result: shape of x, real dtype."""
    kind = raw(x.dtype)
    assert kind is not None
    return xp.real(x) if kind.kind == "c" else x


@op(
    torch="atan2(input, other)",
    aliases=("arctan2",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x, y: g * (y / (x * x + y * y)),
    y=lambda xp, g, x, y: g * (-x / (x * x + y * y)),
    takes="biuf",
)
def atan2(xp: Any, x: Any, y: Any) -> Any:
    """Angle of the point (y, x) in radians.

    x, y: real, shapes that broadcast. Result: broadcast shape, floating.
    """
    return xp.arctan2(x, y)


@op(
    torch="hypot(input, other)",
    inplace=True,
    promote="arith",
    x=lambda xp, g, x, out: g * (x / out),
    y=lambda xp, g, y, out: g * (y / out),
    takes="f",
)
def hypot(xp: Any, x: Any, y: Any) -> Any:
    """sqrt(x² + y²) without overflow.

    x, y: floating, shapes that broadcast. Result: broadcast shape.
    """
    return xp.hypot(x, y)


@op(
    torch="logaddexp(input, other)",
    promote="float",
    x=lambda xp, g, x, y: g * xp.sigmoid(x - y),
    y=lambda xp, g, x, y: g * xp.sigmoid(y - x),
    takes="fc",
)
def logaddexp(xp: Any, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) without overflow.

    x, y: shapes that broadcast. Result: broadcast shape, floating or complex; a complex one has
    the imaginary part of the larger, not wrapped. Source: torch.logaddexp.
    """
    return complex_logaddexp(xp, x, y) if x.dtype.kind == "c" else xp.logaddexp(x, y)


def complex_logaddexp(xp: Any, x: Any, y: Any) -> Any:
    """high + log1p(exp(low - high)), ordered by real parts; NaN in both parts where one is NaN."""
    swap = x.real < y.real
    low, high = xp.where(swap, x, y), xp.where(swap, y, x)
    found = high + xp.log1p(xp.exp(low - high))
    level = xp.isinf(low.real) & (low.real == high.real)  # their difference is NaN
    endless = xp.where(low.real < 0, low, xp.log(xp.exp(low) + xp.exp(high)))
    found = xp.where(level, endless, found)
    return xp.where(xp.isnan(x) | xp.isnan(y), complex("nan+nanj"), found).astype(x.dtype)


@op(
    torch="logaddexp2(input, other)",
    promote="float",
    x=lambda xp, g, x, y: g * xp.sigmoid((x - y) * 0.6931471805599453),
    y=lambda xp, g, x, y: g * xp.sigmoid((y - x) * 0.6931471805599453),
    takes="fc",
)
def logaddexp2(xp: Any, x: Any, y: Any) -> Any:
    """log2(2**x + 2**y) without overflow.

    x, y: real, shapes that broadcast. Result: broadcast shape, floating.
    """
    return xp.logaddexp2(x, y)


@op(
    torch="copysign(input, other)",
    inplace=True,
    promote="float",
    x=lambda xp, g, x, out: xp.masked_fill(g * xp.sign(x) * xp.sign(out), x == 0, value=0),
    y=lambda xp, g: xp.zeros_like(g),
    takes="biuf",
)
def copysign(xp: Any, x: Any, y: Any) -> Any:
    """|x| with the sign of y.

    x, y: real, shapes that broadcast. Result: broadcast shape, floating.
    """
    return xp.copysign(x, y)


@op(
    torch="xlogy(input, other)",
    aliases=("special.xlogy",),
    inplace=True,
    promote="float",
    x=lambda xp, g, x, y: xp.masked_fill(g * xp.log(y), xp.logical_and(x == 0, y <= 0), value=0),
    y=lambda xp, g, x, y: g * x / y,
    takes="f",
)
def xlogy(xp: Any, x: Any, y: Any) -> Any:
    """x * log(y), 0 where x is 0 (NaN where y is).

    x, y: real, shapes that broadcast. Result: floating.
    """
    return xp.where((x == 0) & ~xp.isnan(y), xp.zeros((), x.dtype), x * xp.log(y))
