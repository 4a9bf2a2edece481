"""Losses that are zero beyond a margin. Arguments of all: functional.loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.functional.distance import pairwise_distance
from gradhook.nn.functional.dtype_checks import floating
from gradhook.nn.functional.loss import reduce_loss, reduction_of
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def _above(x: Tensor) -> Tensor:
    """max(x, 0), with PyTorch's gradient of clamp_min: 1 at 0."""
    return xp.clamp(x, low=0)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(margin - target * (input1 - input2), 0); target: 1 or -1. Shapes broadcast.

    Floating.

    Errors: RuntimeError unless all have one number of dimensions.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not input1._a.ndim == input2._a.ndim == target._a.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return reduce_loss(_above(-target * (input1 - input2) + margin), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where target is 1, max(margin - input, 0) where it is -1. One shape. Floating."""
    reduction = reduction_of(size_average, reduce, reduction)
    far = xp.masked_fill(_above(margin - input), target == 1, value=0)
    return reduce_loss(far + xp.masked_fill(input, target == -1, value=0), reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input)); target: 1 or -1. Shapes broadcast. Floating."""
    reduction = reduction_of(size_average, reduce, reduction)
    return reduce_loss(xp.softplus(-target * input, threshold=float("inf")), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cosine where target is 1, max(cosine - margin, 0) where it is -1.

    input1, input2: (batch, features), target: (batch,), or all without the batch axis. Errors:
    RuntimeError for other dimensions. Floating.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    ndim = target._a.ndim
    if ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1._a.ndim == input2._a.ndim == ndim + 1:
        raise RuntimeError(
            f"{ndim}D target tensor expects {ndim + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    product = xp.sum(input1 * input2, axis=ndim)
    squares = [xp.sum(x * x, axis=ndim) + 1e-12 for x in (input1, input2)]
    cosine = product / xp.sqrt(squares[0] * squares[1])
    near = xp.masked_fill(1 - cosine, target != 1, value=0)
    far = xp.masked_fill(_above(cosine - margin), target != -1, value=0)
    return reduce_loss(near + far, reduction)


def _check_target(input: Tensor, target: Tensor, shape: tuple[int, ...], low: int) -> None:
    """Errors: RuntimeError for shapes, dtype, and (on the CPU) labels outside low..classes - 1."""
    if input._a.ndim > 2 or (input._a.ndim and input._a.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    if target._a.shape != shape:
        raise RuntimeError(
            f"inconsistent target size, expected {list(shape)} but got {list(target.shape)}"
        )
    if target._a.dtype != np.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.title}")
    a, classes = target._a, input._a.shape[-1] if input._a.ndim else 1
    if type(a) is np.ndarray and a.size and (a.min() < low or a.max() >= classes):
        raise RuntimeError(
            f"target out of range: found {a.min()} to {a.max()}, expected {low} to {classes - 1}"
        )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of max(margin - input[target] + input, 0) ** p, without the target's
    own, times weight[target].

    input: (batch, classes), target: (batch,), int64, or both without batch; weight: (classes,).
    Errors: ValueError, RuntimeError.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    floating("multi_margin_loss", input)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight._a.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    batched = input._a.ndim == 2
    _check_target(input, target, input._a.shape[:1] if batched else target._a.shape, 0)
    scores = input if batched else xp.reshape(input, shape=(1, -1))
    classes = scores._a.shape[1]
    if weight is not None and weight._a.shape[0] != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    labels = target._a.reshape(-1, 1)
    own: Tensor = make(labels == ARRAY_MODULES[type(labels)].arange(classes))
    chosen = xp.sum(xp.masked_fill(scores, xp.logical_not(own), value=0), axis=1, keepdims=True)
    terms = _above(margin - chosen + scores)
    terms = terms * terms if p == 2 else terms
    if weight is not None:
        terms = terms * xp.expand_dims(xp.index_select(weight, make(labels[:, 0]), axis=0), axis=1)
    losses = xp.sum(xp.masked_fill(terms, own, value=0), axis=1) / classes
    return reduce_loss(losses if batched else xp.squeeze(losses, axis=0), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum of max(1 - input[label] + input[other], 0) over a sample's labels and all other
    classes, over the number of classes.

    input: (batch, classes), target: as input, int64, the labels and then -1; or both without batch.
    Errors: RuntimeError.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    floating("multilabel_margin_loss", input)
    _check_target(input, target, input._a.shape, -1)
    classes = input._a.shape[-1] if input._a.ndim else 1
    scores = xp.reshape(input, shape=(-1, classes))
    labels = target._a.reshape(-1, classes)
    module = ARRAY_MODULES[type(labels)]
    listed = module.cumprod(labels >= 0, axis=1).astype(bool)
    same = labels[:, :, None] == module.arange(classes)
    is_label = (same & listed[:, :, None]).any(axis=1)
    left_out: Tensor = make(~(listed[:, :, None] & ~is_label[:, None, :]))
    own = scores.gather(1, make(module.where(listed, labels, 0)))
    terms = _above(1 - xp.expand_dims(own, axis=2) + xp.expand_dims(scores, axis=1))
    losses = xp.sum(xp.masked_fill(terms, left_out, value=0), axis=(1, 2)) / classes
    return reduce_loss(losses if input._a.ndim == 2 else xp.squeeze(losses, axis=0), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(margin + d(anchor, positive) - d(anchor, negative), 0), d being pairwise_distance.

    swap: d(positive, negative) counts where it is smaller. Errors: ValueError unless margin > 0,
    RuntimeError for dimensions that differ. Floating.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance of one's own, pairwise_distance by default.

    anchor, positive, negative: shapes that the distance takes, floating.
    Errors: ValueError for margin up to 0, RuntimeError for other numbers of dimensions.
    """
    reduction = reduction_of(None, None, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ndims = [t._a.ndim for t in (anchor, positive, negative)]
    if len(set(ndims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {ndims[0]}D, positive {ndims[1]}D, and negative "
            f"{ndims[2]}D inputs"
        )
    distance = distance_function or pairwise_distance
    far = distance(anchor, negative)
    near = distance(anchor, positive)
    if swap:
        far = xp.minimum(far, distance(positive, negative))
    return reduce_loss(_above(margin + near - far), reduction)
