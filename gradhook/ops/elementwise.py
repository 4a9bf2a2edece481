"""Sign, absolute value, rounding, and the plain copies: negative, clone, cast, zeros_like."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.dtypes import of, raw
from gradhook.ops.table import composite, op


@op(
    torch="neg(input)",
    aliases=("negative",),
    operator="neg",
    inplace=True,
    linear=True,
    x=lambda xp, g: -g,
)
def negative(xp: Any, x: Any) -> Any:
    """-x. x: any shape, not bool. Result: shape and dtype of x. Errors: RuntimeError for bool."""
    try:
        return -x
    except TypeError as error:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        ) from error


@composite(torch="positive(input)", operator="pos")
def positive(xp: Any, x: Any) -> Any:
    """x itself, the same object, as PyTorch returns.

    x: any shape, not bool. Result: shape and dtype of x. Errors: RuntimeError for bool.
    """
    if of(x.dtype).np.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return x


@op(
    torch="abs(input)",
    aliases=("absolute",),
    operator="abs",
    inplace=True,
    x=lambda xp, g, x: g * xp.sgn(x),
)
def absolute(xp: Any, x: Any) -> Any:
    """|x|; the gradient at 0 is 0. x: any shape. Result: shape of x, real dtype."""
    return xp.abs(x)


@op(torch="sign(input)", inplace=True, x=lambda xp, g: xp.zeros_like(g), takes="biuf")
def sign(xp: Any, x: Any) -> Any:
    """-1, 0 or 1.

    x: any shape, real. Result: shape and dtype of x, zero gradient. NaN gives 0, as PyTorch.
    """
    if x.dtype.kind == "b":
        return x.copy()
    return (x > 0).astype(x.dtype) - (x < 0)


@composite()
def sgn_vjp(xp: Any, g: Any, x: Any, out: Any) -> Any:
    """Gradient of sgn: zero for real x, else the part of g across the direction of x, over |x|.

    g, x, out: one shape. Result: that shape.
    """
    kind = raw(x.dtype)
    assert kind is not None
    if kind.kind != "c":
        return xp.zeros_like(g)
    scaled = g / xp.absolute(x)
    across = scaled - xp.real(scaled * xp.conj(out)) * out
    return xp.masked_fill(across, x == 0, value=0)


@op(torch="sgn(input)", inplace=True, linear=True, x=lambda xp, g, x, out: xp.sgn_vjp(g, x, out))
def sgn(xp: Any, x: Any) -> Any:
    """x / |x|, 0 at 0. x: any shape. Result: shape and dtype of x."""
    if x.dtype.kind != "c":
        return sign(xp, x)
    size = xp.abs(x)
    return x / xp.where(size == 0, size.dtype.type(1), size)


@op(torch="floor(input)", inplace=True, x=lambda xp, g: xp.zeros_like(g), takes="biuf")
def floor(xp: Any, x: Any) -> Any:
    """The largest integer not above x.

    x: any shape, real. Result: shape and dtype of x, zero gradient.
    """
    return xp.floor(x) if x.dtype.kind == "f" else x.copy()


@op(torch="ceil(input)", inplace=True, x=lambda xp, g: xp.zeros_like(g), takes="biuf")
def ceil(xp: Any, x: Any) -> Any:
    """The smallest integer not below x.

    x: any shape, real. Result: shape and dtype of x, zero gradient.
    """
    return xp.ceil(x) if x.dtype.kind == "f" else x.copy()


@op(
    torch="trunc(input)",
    aliases=("fix",),
    inplace=True,
    x=lambda xp, g: xp.zeros_like(g),
    takes="biuf",
)
def trunc(xp: Any, x: Any) -> Any:
    """x without its fraction. x: any shape, real. Result: shape and dtype of x, zero gradient."""
    return xp.trunc(x) if x.dtype.kind == "f" else x.copy()


@op(torch="frac(input)", inplace=True, x=lambda xp, g: g, takes="f")
def frac(xp: Any, x: Any) -> Any:
    """The fraction of x, with its sign. x: any shape, floating. Result: shape and dtype of x."""
    return x - xp.trunc(x)


@op(
    torch="round(input, *, decimals=0)",
    aliases=("special.round",),
    inplace=True,
    x=lambda xp, g: xp.zeros_like(g),
    takes="iuf",
)
def round(xp: Any, x: Any, *, decimals: int = 0) -> Any:
    """Nearest multiple of 10**-decimals, halves to even.

    x: any shape, real. Result: shape, dtype of x, zero grad.
    """
    if x.dtype.kind != "f":
        return x.copy()
    if decimals == 0:
        return xp.rint(x)
    scale = 10.0 ** abs(decimals)
    return xp.rint(x * scale) / scale if decimals > 0 else xp.rint(x / scale) * scale


@op(torch="clone(input)", linear=True, x=lambda xp, g: g)
def clone(xp: Any, x: Any) -> Any:
    """A copy of x in memory of its own.

    x: any shape. Result: shape, dtype and memory order of x (row order when its elements overlap).
    """
    return x.copy(order="K") if x.ndim > 1 and 0 not in x.strides else x.copy()


@op(torch=None, linear=True, x=lambda xp, g: g)
def cast(xp: Any, x: Any, *, dtype: Any) -> Any:
    """x in another element type.

    x: any shape. Result: shape of x, `dtype`; complex to real takes the real part.
    """
    target = raw(dtype)
    assert target is not None
    if x.dtype.kind == "c" and target.kind not in "cb":
        x = x.real
    return x.astype(target)


@op(torch=None, x=None)
def zeros_like(xp: Any, x: Any) -> Any:
    """Zeros. x: any shape. Result: shape and dtype of x, no gradient."""
    return xp.zeros(x.shape, x.dtype)


@op(torch=None, x=None)
def ones_like(xp: Any, x: Any) -> Any:
    """Ones. x: any shape. Result: shape and dtype of x, no gradient."""
    return xp.ones(x.shape, x.dtype)


@op(torch=None, x=lambda xp, g: xp.zeros_like(g), src=lambda xp, g: g, linear=True)
def copy(xp: Any, x: Any, src: Any) -> Any:
    """src in the shape and dtype of x (`copy_`).

    src: broadcasts to x. Result: shape and dtype of x.

    Errors: RuntimeError when src does not broadcast to x.
    """
    if src.dtype.kind == "c" and x.dtype.kind not in "cb":
        src = src.real
    if src.shape == x.shape:
        return src.astype(x.dtype)
    try:
        return xp.broadcast_to(src, x.shape).astype(x.dtype)
    except ValueError as error:
        raise RuntimeError(
            f"output with shape {list(x.shape)} doesn't match the broadcast shape of the source "
            f"{list(src.shape)}"
        ) from error


@op(torch=None, x=lambda xp, g: xp.zeros_like(g))
def fill(xp: Any, x: Any, *, value: Any) -> Any:
    """`value` everywhere (`fill_`).

    x: any shape. value: a Python number. Result: shape and dtype of x, zero gradient.

    Errors: RuntimeError when the number does not fit the dtype.
    """
    return xp.full(x.shape, element(value, x.dtype), x.dtype)


def element(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as a scalar of `dtype`.

    Errors: RuntimeError when it is complex and the dtype is not, or NaN.
    """
    try:
        if isinstance(value, complex) and dtype.kind not in "c":
            raise TypeError
        return dtype.type(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name} without overflow"
        ) from error


@op(
    torch="nan_to_num(input, nan=0.0, posinf=None, neginf=None)",
    inplace=True,
    x=lambda xp, g, x: xp.masked_fill(g, xp.logical_not(xp.isfinite(x)), value=0),
)
def nan_to_num(
    xp: Any, x: Any, *, nan: float | None = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """x with NaN, inf and -inf replaced (by the dtype's limits unless given).

    Result: shape and dtype of x.
    """
    if x.dtype.kind not in "fc":
        return x.copy()
    return xp.nan_to_num(x, copy=True, nan=nan or 0.0, posinf=posinf, neginf=neginf)


@op(torch=None, linear=True, x=lambda xp, g: g)
def contiguous_copy(xp: Any, x: Any) -> Any:
    """A copy of x in row-major order. x: any shape. Result: shape and dtype of x."""
    return x.copy()


@op(torch=None, linear=True, x=lambda xp, g, move, back: xp.transfer(g, move=back, back=move))
def transfer(xp: Any, x: Any, *, move: Any, back: Any) -> Any:
    """x on another device.

    move, back: functions that carry an array there and back. Result: shape and dtype of x.
    """
    return move(x)
