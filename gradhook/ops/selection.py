"""Choosing between values: where, masked_fill, minimum, maximum, clip, lerp."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.kernels.parts import PART, are_large, slices
from gradhook.ops.elementwise import element
from gradhook.ops.table import composite, op


@op(
    torch=None,
    condition=None,
    x=lambda xp, g, condition: xp.masked_fill(g, xp.logical_not(condition), value=0),
    y=lambda xp, g, condition: xp.masked_fill(g, condition, value=0),
)
def where(xp: Any, condition: Any, x: Any, y: Any) -> Any:
    """x where condition, y elsewhere.

    condition: bool; x, y: one dtype; shapes that broadcast. Result: their dtype.
    """
    return xp.where(condition, x, y)


@op(torch=None, x=lambda xp, g, condition: xp.masked_fill(g, condition, value=0), condition=None)
def masked_fill(xp: Any, x: Any, condition: Any, *, value: Any) -> Any:
    """`value` where condition, x elsewhere.

    condition: bool, broadcasts with x; value: a number. Result: dtype of x.

    Errors: RuntimeError when the condition is not bool or the number does not fit the dtype of x.
    """
    if condition.dtype.kind != "b":
        raise RuntimeError(
            "masked_fill only supports boolean masks, but got condition with dtype "
            f"{condition.dtype.name}"
        )
    kind = x.dtype.kind
    if kind != "f" or type(value) not in (int, float):
        return xp.where(condition, element(value, x.dtype), x)
    if value == 0 and x.size > SMALL and x.shape == condition.shape:
        return cleared(xp, x, condition)
    return xp.where(condition, value, x)


SMALL = 1000


def cleared(xp: Any, x: Any, condition: Any) -> Any:
    """x with 0 where condition. By masking bits: NumPy's where costs ten times that."""
    if xp.__name__ != "numpy":
        return xp.where(condition, 0, x)
    if not are_large(x) or not condition.flags.c_contiguous:
        return _masked_bits(x, condition)
    out, given, off = np.empty_like(x), x.reshape(-1), condition.reshape(-1)
    flat = out.reshape(-1)
    for part in slices(flat.size, PART):
        flat[part] = _masked_bits(given[part], off[part])
    return out


def _masked_bits(x: Any, condition: Any) -> Any:
    bits = f"i{x.dtype.itemsize}"
    mask = condition.view("i1").astype(bits)
    mask -= 1
    mask &= x.view(bits)
    return mask.view(x.dtype)


@op(
    torch="maximum(input, other)",
    promote="arith",
    x=lambda xp, g, x, y: xp.masked_fill(xp.where(x == y, g / 2, g), x < y, value=0),
    y=lambda xp, g, x, y: xp.masked_fill(xp.where(x == y, g / 2, g), y < x, value=0),
    takes="biuf",
)
def maximum(xp: Any, x: Any, y: Any) -> Any:
    """The larger of x and y, NaN if either is; equal ones share the gradient.

    x, y: real, broadcasting shapes.
    """
    return xp.maximum(x, y)


@op(
    torch="minimum(input, other)",
    promote="arith",
    x=lambda xp, g, x, y: xp.masked_fill(xp.where(x == y, g / 2, g), x > y, value=0),
    y=lambda xp, g, x, y: xp.masked_fill(xp.where(x == y, g / 2, g), y > x, value=0),
    takes="biuf",
)
def minimum(xp: Any, x: Any, y: Any) -> Any:
    """The smaller of x and y, NaN if either is; equal ones share the gradient.

    x, y: real, broadcasting shapes.
    """
    return xp.minimum(x, y)


@op(
    torch="fmax(input, other)",
    promote="arith",
    x=lambda xp, g, x, y: xp.masked_fill(
        g, xp.logical_not(xp.logical_or(x >= y, xp.isnan(y))), value=0
    ),
    y=lambda xp, g, x, y: xp.masked_fill(g, xp.logical_or(x >= y, xp.isnan(y)), value=0),
    takes="biuf",
)
def fmax(xp: Any, x: Any, y: Any) -> Any:
    """The larger of x and y, the other one if one is NaN.

    x, y: real, broadcasting shapes. Result: promoted dtype.
    """
    return xp.fmax(x, y)


@op(
    torch="fmin(input, other)",
    promote="arith",
    x=lambda xp, g, x, y: xp.masked_fill(
        g, xp.logical_not(xp.logical_or(x <= y, xp.isnan(y))), value=0
    ),
    y=lambda xp, g, x, y: xp.masked_fill(g, xp.logical_or(x <= y, xp.isnan(y)), value=0),
    takes="biuf",
)
def fmin(xp: Any, x: Any, y: Any) -> Any:
    """The smaller of x and y, the other one if one is NaN.

    x, y: real, broadcasting shapes. Result: promoted dtype.
    """
    return xp.fmin(x, y)


@op(
    torch="clamp_min(input, min)",
    inplace=True,
    promote="arith",
    x=lambda xp, g, x, low: xp.masked_fill(g, x < low, value=0),
    low=lambda xp, g, x, low: xp.masked_fill(g, xp.logical_not(x < low), value=0),
    takes="biuf",
)
def clip_low(xp: Any, x: Any, low: Any) -> Any:
    """x raised to low; the gradient goes to x where they are equal.

    x: real; low: broadcasts with x. Result: broadcast shape, promoted dtype.
    """
    return xp.maximum(x, low)


@op(
    torch="clamp_max(input, max)",
    inplace=True,
    promote="arith",
    x=lambda xp, g, x, high: xp.masked_fill(g, x > high, value=0),
    high=lambda xp, g, x, high: xp.masked_fill(g, xp.logical_not(x > high), value=0),
    takes="biuf",
)
def clip_high(xp: Any, x: Any, high: Any) -> Any:
    """x lowered to high; the gradient goes to x where they are equal.

    x: real; high: broadcasts with x. Result: broadcast shape, promoted dtype.
    """
    return xp.minimum(x, high)


@op(
    torch=None,
    promote="arith",
    x=lambda xp, g, x, low, high: xp.masked_fill(g, xp.logical_or(x < low, x > high), value=0),
    low=lambda xp, g, x, low, high: xp.masked_fill(
        g, xp.logical_not(xp.logical_and(x < low, low < high)), value=0
    ),
    high=lambda xp, g, x, low, high: xp.masked_fill(
        g, xp.logical_not(xp.logical_or(x > high, low > high)), value=0
    ),
    takes="biuf",
)
def clip(xp: Any, x: Any, low: Any, high: Any) -> Any:
    """x raised to low, then lowered to high.

    x: real; low, high: broadcast with x. Result: broadcast shape, promoted dtype.
    """
    return xp.minimum(xp.maximum(x, low), high)


@op(torch=None, x=None, takes="biuf")
def outside(xp: Any, x: Any, *, low: Any = None, high: Any = None) -> Any:
    """Whether x lies below low or above high, Python numbers or None. Result: shape of x, bool."""
    if high is None:
        return xp.less(x, low)
    if low is None:
        return xp.greater(x, high)
    return xp.logical_or(x < low, x > high)


@op(
    torch=None,
    x=lambda xp, g, x, low, high: xp.masked_fill(g, xp.outside(x, low=low, high=high), value=0),
    takes="biuf",
)
def clamp(xp: Any, x: Any, *, low: Any = None, high: Any = None) -> Any:
    """`clip` by Python numbers, one of which may be None. x: floating. Result: as x."""
    if low is not None:
        x = xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


@composite(torch="lerp(input, end, weight)", inplace=True, takes="fc")
def lerp(xp: Any, x: Any, end: Any, weight: Any) -> Any:
    """x + weight * (end - x).

    x, end, weight: floating, shapes that broadcast. Result: broadcast shape.
    """
    return x + weight * (end - x)


@composite(torch="addcmul(input, tensor1, tensor2, *, value=1)", inplace=True)
def addcmul(xp: Any, x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    """x + value * y * z.

    x, y, z: shapes that broadcast. Result: broadcast shape, promoted dtype.
    """
    return x + y * z * value


@composite(torch="addcdiv(input, tensor1, tensor2, *, value=1)", inplace=True)
def addcdiv(xp: Any, x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    """x + value * y / z.

    x, y, z: floating, shapes that broadcast. Result: broadcast shape, promoted dtype. Errors:
    RuntimeError for y and z of integers.
    """
    if y.dtype.kind in "biu" and z.dtype.kind in "biu":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: found tensor1 and tensor2 of "
            f"{y.dtype} and {z.dtype}; convert one with .to(dtype)"
        )
    return x + y / z * value


@op(
    torch=None,
    condition=None,
    x=lambda xp, g, condition: xp.masked_fill(g, condition, value=0),
    value=lambda xp, g, condition: xp.masked_fill(g, xp.logical_not(condition), value=0),
)
def masked_fill_tensor(xp: Any, x: Any, condition: Any, value: Any) -> Any:
    """The 0-d tensor `value` where condition, x elsewhere.

    condition: bool, broadcasts with x. Result: dtype of x.

    Errors: RuntimeError when the condition is not bool.
    """
    if condition.dtype.kind != "b":
        raise RuntimeError(
            "masked_fill only supports boolean masks, but got condition with dtype "
            f"{condition.dtype.name}"
        )
    return xp.where(condition, value.astype(x.dtype), x)
