"""Losses: the elements that have a better gradient as one op than as their parts; reductions are
the table's.
"""

from __future__ import annotations

from typing import Any

from gradhook.ops.nn_class_loss import at_classes
from gradhook.ops.table import op

Array = Any


@op(
    method=False,
    promote="arith",
    x=lambda xp, g, x, target: g * (xp.subtract(x, target) * 2),
    target=lambda xp, g, x, target: g * (xp.subtract(target, x) * 2),
)
def squared_error(xp: Any, x: Array, target: Array) -> Array:
    """(x - target) ** 2, elementwise with broadcasting. Result: the promoted dtype."""
    out = x - target
    return out * out


@op(
    method=False,
    x=lambda xp, g, x, target: xp.divide(
        xp.multiply(g, x - target), xp.maximum(x * (1 - x), 1e-12)
    ),
    target=lambda xp, g, x: g * (xp.log1p(-x) - xp.log(x)),
    takes="f",
)
def binary_cross_entropy_terms(xp: Any, x: Array, target: Array) -> Array:
    """-(target * log(x) + (1 - target) * log(1 - x)), logarithms cut at -100.

    x: probabilities, target: the same shape. Result: dtype of x. Source: PyTorch,
    nn.functional.binary_cross_entropy.
    """
    inside, below = x > 0, x < 1
    log = xp.where(inside, xp.maximum(xp.log(xp.where(inside, x, 1)), -100), -100)
    log_rest = xp.where(below, xp.maximum(xp.log1p(-xp.where(below, x, 0)), -100), -100)
    return (target - 1) * log_rest - target * log


def _safe(xp: Any, target: Array, ignore_index: int | None) -> tuple[Array, Array | None]:
    """Targets with class 0 for ignored ones, and the mask of those that count (None: all)."""
    if ignore_index is None:
        return target, None
    valid = target != ignore_index
    return xp.where(valid, target, 0), valid


@op(
    method=False,
    linear=True,
    x=lambda xp, g, target, x_shape, ignore_index: xp.place_class(
        g, target, shape=x_shape, ignore_index=ignore_index
    ),
    target=None,
)
def pick_class(xp: Any, x: Array, target: Array, *, ignore_index: int | None = None) -> Array:
    """x at each target's class; 0 where the target is ignore_index.

    x: (classes,) or (batch, classes, *rest), target: x's shape without the classes, integer.
    Result: target's shape.
    """
    safe, valid = _safe(xp, target, ignore_index)
    out = x[at_classes(xp, safe)]
    return out if valid is None else out * valid


@op(
    method=False,
    linear=True,
    grad=lambda xp, g, target, ignore_index: xp.pick_class(g, target, ignore_index=ignore_index),
    target=None,
)
def place_class(
    xp: Any, grad: Array, target: Array, *, shape: tuple[int, ...], ignore_index: int | None = None
) -> Array:
    """Zeros of `shape` with grad at each target's class, the transpose of `pick_class`."""
    safe, valid = _safe(xp, target, ignore_index)
    out = xp.zeros(tuple(shape), dtype=grad.dtype)
    out[at_classes(xp, safe)] = grad if valid is None else grad * valid
    return out


@op(
    method=False,
    linear=True,
    x=lambda xp, g, target, ignore_index: xp.mask_ignored(g, target, ignore_index=ignore_index),
    target=None,
)
def mask_ignored(xp: Any, x: Array, target: Array, *, ignore_index: int) -> Array:
    """x with zeros for all classes where the target is ignore_index. Result: shape of x.

    x: (classes,) or (batch, classes, *rest), target: x's shape without the classes, integer.
    """
    return x * xp.expand_dims(target != ignore_index, 0 if x.ndim == 1 else 1)
