"""The losses of class indices: negative log-likelihood and cross entropy, each one op with its
class weights, ignored targets, label smoothing and reduction.

A target t loses (1 - s) * w(t) * -log p(t) + s / classes * sum over classes c of w(c) * -log p(c),
with s the label smoothing and w the class weights. Ignored targets lose 0 and do not count; "mean"
divides by the sum of w(t) over targets. Source: PyTorch, nn.functional.cross_entropy; label
smoothing: arXiv:1512.00567.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gradhook.dtypes import accumulation
from gradhook.ops.nn_linear import ones
from gradhook.ops.table import composite, op

Array = Any
_largest: Any = np.maximum.reduce


@lru_cache(256)
def _host_range(n: int) -> Array:
    """0 to n - 1, kept: the same for every batch of that size."""
    return np.arange(n)


def at_classes(xp: Any, target: Array) -> tuple[Any, ...]:
    """The index of every target's own element in scores of shape (batch, classes, *rest) or
    (classes,).
    """
    numbers = _host_range if xp is np else xp.arange
    if target.ndim == 1:
        return (numbers(target.shape[0]), target)
    if target.ndim == 0:
        return (target,)
    after = range(target.ndim - 1, -1, -1)
    grid = [numbers(n).reshape(-1, *(1,) * k) for n, k in zip(target.shape, after, strict=True)]
    return (grid[0], target, *grid[1:])


def class_axis(ndim: int) -> int:
    """Which axis of scores the classes lie on."""
    return 0 if ndim == 1 else 1


def _expanded(x: Array, axis: int) -> Array:
    """x with an axis of length 1 for the classes, as a view. axis: 0 or 1."""
    return x[:, None] if axis else x[None]


def _shifted(x: Array, axis: int) -> Array:
    """x minus its largest element along `axis`, in the dtype sums are made in."""
    x = x.astype(accumulation(x.dtype), copy=False)
    if type(x) is np.ndarray:  # less Python than the method
        return x - _largest(x, axis, None, None, True)
    return x - x.max(axis=axis, keepdims=True)


def _sum_of_classes(x: Array, axis: int) -> Array:
    """The sum over `axis`. Result: without it."""
    if type(x) is np.ndarray and x.ndim == 2 and x.dtype.char in "fd":
        # a product with ones: a third of NumPy's reduction over short rows
        return np.dot(x, ones(np, x.shape[1], x.dtype.char))
    return x.sum(axis=axis)


def _along(ndim: int, weight: Array) -> Array:
    """Weights of classes as they broadcast to scores of so many axes."""
    return weight if ndim <= 2 else weight.reshape(-1, *(1,) * (ndim - 2))


class _Shares:
    """What each target counts. safe: targets with class 0 for the ignored; valid: the mask of
    those that count, None where all do; each: w(t), 0 where ignored, None where all are 1.
    """

    def __init__(
        self, xp: Any, target: Array, weight: Array | None, ignore_index: int | None, kind: Any
    ) -> None:
        self.safe, self.valid, self.each = target, None, None
        if ignore_index is not None:
            self.valid = target != ignore_index
            self.safe = xp.where(self.valid, target, 0)
        if weight is not None:
            self.each = self.counted(xp, weight[self.safe].astype(kind, copy=False))
        elif self.valid is not None:
            self.each = self.valid.astype(kind)

    def counted(self, xp: Any, values: Array) -> Array:
        """The values with 0 where the target is ignored, whatever stands there."""
        return values if self.valid is None else xp.where(self.valid, values, 0)

    def over_count(self, x: Array, reduction: str) -> Array:
        """x over what the targets count in all ("mean"), else x."""
        if reduction != "mean":
            return x
        return x / (self.safe.size if self.each is None else self.each.sum())


def _loss(
    xp: Any, scores: Array, logs: Array | None, target: Array, weight: Array | None,
    ignore_index: int | None, reduction: str, label_smoothing: float,
) -> Array:  # fmt: skip
    """The loss of log-probabilities `scores - logs`, in their dtype. logs: target's shape."""
    kind = scores.dtype
    shares = _Shares(xp, target, weight, ignore_index, kind)
    picked = scores[at_classes(xp, shares.safe)]
    losses = -picked if logs is None else logs - picked
    if weight is not None:
        losses = losses * shares.each
    if label_smoothing:
        axis = class_axis(scores.ndim)
        terms = -scores if logs is None else _expanded(logs, axis) - scores
        if weight is not None:
            terms = terms * _along(scores.ndim, weight.astype(kind, copy=False))
        spread = terms.sum(axis=axis) * (label_smoothing / scores.shape[axis])
        losses = losses * (1 - label_smoothing) + spread
    losses = shares.counted(xp, losses)
    if reduction == "none":
        return losses
    return shares.over_count(losses.sum(), reduction)


@op(
    method=False,
    linear=True,
    x=lambda xp, g, target, weight, x_shape, ignore_index, reduction, label_smoothing: (
        xp.nll_loss_input(
            g, target, weight, shape=x_shape, ignore_index=ignore_index, reduction=reduction,
            label_smoothing=label_smoothing,
        )
    ),
    target=None,
    weight=None,
    takes="f",
)  # fmt: skip
def nll_loss(
    xp: Any,
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """The loss of log-probabilities.

    x: (classes,) or (batch, classes, *rest), floating; target: class indices in range or
    ignore_index, x's shape without the classes; weight: (classes,), of x's dtype. reduction:
    "mean", "sum" or "none". Result: 0-d, or target's shape, dtype of x; a mean over nothing is NaN.
    """
    wide = x.astype(accumulation(x.dtype), copy=False)
    loss = _loss(xp, wide, None, target, weight, ignore_index, reduction, label_smoothing)
    return loss.astype(x.dtype, copy=False)


@op(
    method=False,
    linear=True,
    grad=lambda xp, g, target, weight, ignore_index, reduction, label_smoothing: xp.nll_loss(
        g, target, weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    ),
    target=None,
    weight=None,
)  # fmt: skip
def nll_loss_input(
    xp: Any,
    grad: Array,
    target: Array,
    weight: Array | None = None,
    *,
    shape: tuple[int, ...],
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """The gradient of nll_loss for x. grad: 0-d, or target's shape. Result: exactly `shape`."""
    kind = accumulation(grad.dtype)
    axis = class_axis(len(shape))
    shares = _Shares(xp, target, weight, ignore_index, kind)
    share = shares.over_count(-grad.astype(kind, copy=False), reduction)
    each = share if weight is None else share * shares.each
    out = xp.zeros(tuple(shape), dtype=kind)
    out[at_classes(xp, shares.safe)] = shares.counted(xp, each) * (1 - label_smoothing)
    if label_smoothing:
        spread = shares.counted(xp, xp.broadcast_to(share, target.shape))
        spread = _expanded(spread * (label_smoothing / shape[axis]), axis)
        out += spread if weight is None else spread * _along(len(shape), weight)
    return out.astype(grad.dtype, copy=False)


@composite(method=False)
def cross_entropy_grad_vjp(
    xp: Any,
    g: Array,
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None,
    reduction: str,
    label_smoothing: float,
) -> Array:
    """The gradient of cross_entropy_input for grad: log_softmax's directional derivative along g,
    then the loss of it. Result: 0-d, or target's shape.
    """
    axis = 0 if x.ndim == 1 else 1
    mean = xp.sum(xp.multiply(g, xp.softmax(x, axis=axis)), axis=axis, keepdims=True)
    return xp.nll_loss(
        xp.subtract(g, mean), target, weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


@composite(method=False)
def cross_entropy_x_vjp(
    xp: Any,
    g: Array,
    grad: Array,
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None,
    reduction: str,
    label_smoothing: float,
) -> Array:
    """The gradient of cross_entropy_input for x: only -softmax(x) * sum of the gradient for the
    log-probabilities depends on x. Result: shape of x.
    """
    axis = 0 if x.ndim == 1 else 1
    by_logs = xp.nll_loss_input(
        grad, target, weight, shape=tuple(x.shape), ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip
    h = xp.multiply(g, xp.negative(xp.sum(by_logs, axis=axis, keepdims=True)))
    return xp.softmax_vjp(h, xp.softmax(x, axis=axis), axis=axis)


@op(
    method=False,
    grad=lambda xp, g, x, target, weight, ignore_index, reduction, label_smoothing: (
        xp.cross_entropy_grad_vjp(
            g, x, target, weight, ignore_index=ignore_index, reduction=reduction,
            label_smoothing=label_smoothing,
        )
    ),
    x=lambda xp, g, grad, x, target, weight, ignore_index, reduction, label_smoothing: (
        xp.cross_entropy_x_vjp(
            g, grad, x, target, weight, ignore_index=ignore_index, reduction=reduction,
            label_smoothing=label_smoothing,
        )
    ),
    target=None,
    weight=None,
)  # fmt: skip
def cross_entropy_input(
    xp: Any,
    grad: Array,
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """The gradient of cross_entropy for x. grad: 0-d, or target's shape. Result: as x."""
    kind, axis = accumulation(x.dtype), class_axis(x.ndim)
    if not x.size:
        return xp.zeros(x.shape, x.dtype)
    shares = _Shares(xp, target, weight, ignore_index, kind)
    out = xp.exp(_shifted(x, axis))
    norm = _sum_of_classes(out, axis)
    share = shares.over_count(grad.astype(kind, copy=False), reduction)
    if label_smoothing or shares.each is not None:
        share = shares.counted(xp, xp.broadcast_to(share, target.shape))
    each = share if weight is None else share * shares.each
    if label_smoothing:
        each = each * (1 - label_smoothing)
        share = share * (label_smoothing / x.shape[axis])
        total = x.shape[axis] if weight is None else weight.sum(dtype=kind)
        out *= _expanded((each + share * total) / norm, axis)
        spread = _expanded(share, axis)
        out -= spread if weight is None else spread * _along(x.ndim, weight.astype(kind))
    else:
        out *= _expanded(each / norm, axis)
    out[at_classes(xp, shares.safe)] -= each
    if shares.valid is not None:
        out = xp.where(_expanded(shares.valid, axis), out, 0)
    return out.astype(x.dtype, copy=False)


@op(
    method=False,
    node="NllLossBackward0",
    x=lambda xp, g, x, target, weight, ignore_index, reduction, label_smoothing: (
        xp.cross_entropy_input(
            g, x, target, weight, ignore_index=ignore_index, reduction=reduction,
            label_smoothing=label_smoothing,
        )
    ),
    target=None,
    weight=None,
    takes="f",
)  # fmt: skip
def cross_entropy(
    xp: Any,
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """The loss of softmax(x). Arguments, shapes and result as of nll_loss, x being any scores."""
    axis = class_axis(x.ndim)
    if x.size:
        scores = _shifted(x, axis)
        logs = xp.log(_sum_of_classes(xp.exp(scores), axis))
    else:
        scores, logs = x.astype(accumulation(x.dtype), copy=False), None
    loss = _loss(xp, scores, logs, target, weight, ignore_index, reduction, label_smoothing)
    return loss.astype(x.dtype, copy=False)
