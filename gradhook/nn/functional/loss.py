"""Losses.

reduction: "mean", "sum" or "none"; size_average and reduce are PyTorch's deprecated forms of it.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from gradhook.hooks.notices import caller_depth
from gradhook.nn.functional.dtype_checks import floating, real
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that a call asks for. Errors: ValueError for an unknown word."""
    if size_average is None and reduce is None:
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"{reduction} is not a valid value for reduction")
        return reduction
    if reduce is False:
        found = "none"
    else:
        found = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.",
        stacklevel=caller_depth(),
    )
    return found


def reduce_loss(losses: Tensor, reduction: str) -> Tensor:
    """The mean, the sum, or the losses themselves."""
    if reduction == "mean":
        return xp.mean(losses)
    return xp.sum(losses) if reduction == "sum" else losses


def _weighted(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """losses times weight, reduced; the mean divides by the sum of weight."""
    if weight is None:
        return reduce_loss(losses, reduction)
    losses = losses * weight
    if reduction == "mean":
        return xp.sum(losses) / xp.sum(weight)
    return reduce_loss(losses, reduction)


def _warn_sizes(name: str, input: Tensor, target: Tensor) -> None:
    if input._a.shape != target._a.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=caller_depth(),
        )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target) ** 2, times weight; floating. Shapes broadcast, warning if they differ."""
    reduction = reduction_of(size_average, reduce, reduction)
    _warn_sizes("mse_loss", input, target)
    losses = floating("mse_loss", xp.squared_error(input, target))
    return _weighted(losses, weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """abs(input - target), times weight; floating. Shapes broadcast, warning if they differ."""
    reduction = reduction_of(size_average, reduce, reduction)
    _warn_sizes("l1_loss", input, target)
    losses = xp.absolute(xp.subtract(input, target))
    return _weighted(losses, weight, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """d ** 2 / (2 beta) where d = |input - target| < beta, else d - beta / 2. Shapes broadcast,
    floating. Errors: RuntimeError for beta below 0.
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    reduction = reduction_of(size_average, reduce, reduction)
    _warn_sizes("smooth_l1_loss", input, target)
    d = xp.absolute(floating("smooth_l1_loss", xp.subtract(input, target)))
    return reduce_loss(xp.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta), reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """d ** 2 / 2 where d = |input - target| < delta, else delta * (d - delta / 2).

    Shapes broadcast, floating. Errors: RuntimeError for delta up to 0, TypeError for no number.
    """
    if not isinstance(delta, (int, float)):
        raise TypeError(f"delta must be a float or int, got: {type(delta)}")
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    reduction = reduction_of(None, None, reduction)
    d = xp.absolute(floating("huber_loss", xp.subtract(input, target)))
    losses = xp.where(d < delta, d * d * 0.5, (d - 0.5 * delta) * delta)
    return _weighted(losses, weight, reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy of probabilities.

    input in [0, 1] and target: one shape; weight broadcasts to it. Floating.

    Errors: ValueError when sizes differ, RuntimeError on the CPU for an input outside [0, 1].
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    a = input._a
    if type(a) is np.ndarray and a.size and not (a.min() >= 0 and a.max() <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    losses = xp.binary_cross_entropy_terms(input, target)
    return reduce_loss(losses if weight is None else losses * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Cross entropy of sigmoid(input), stable for every input.

    pos_weight: multiplies the positive part. input, target: one shape, floating.

    Errors: ValueError when the sizes of input and target differ.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    tail = xp.softplus(-input, beta=1.0, threshold=math.inf)
    if pos_weight is not None:
        tail = tail * (1 + (pos_weight - 1) * target)
    losses = (1 - target) * input + tail
    return reduce_loss(losses if weight is None else losses * weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log(target) - input), input being log-probabilities.

    reduction: also "batchmean". Shapes broadcast; floating. Errors: RuntimeError for other dtypes.
    """
    real("kl_div", input, target)
    if log_target:
        losses = xp.exp(target) * (target - input)
    else:
        losses = xp.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return xp.sum(losses) / int(input._a.shape[0])
    return reduce_loss(losses, reduction_of(size_average, reduce, reduction))


# ---- classes ---------------------------------------------------------------------------------
def counted_targets(target: Any, classes: int, ignore_index: int) -> int | None:
    """The ignore_index to pass on: None when every target counts.

    On the CPU targets are checked with one reduction.

    Errors: IndexError names a target that is no class; on a device, where checking would wait, its
    loss is NaN in the kernels and undefined in the formulas.
    """
    if type(target) is np.ndarray and target.size:
        if target.view(_UNSIGNED[target.itemsize]).max() < classes:
            return ignore_index if 0 <= ignore_index < classes else None
        wrong = target[(target != ignore_index) & ((target < 0) | (target >= classes))]
        if wrong.size:
            raise IndexError(
                f"Target {wrong.flat[0]} is out of bounds: expected classes 0 to {classes - 1}"
            )
    return ignore_index


def check_classes(input: Tensor, target: Tensor, weight: Tensor | None) -> int:
    """The number of classes.

    Errors: ValueError and RuntimeError, in PyTorch's words, where shapes do not fit.
    """
    a, t = input._a, target._a
    if a.ndim == 0:
        raise RuntimeError("input tensor should be 1D or more, found a 0-d tensor")
    if a.ndim > 1 and t.ndim and a.shape[0] != t.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({a.shape[0]}) to match target batch_size ({t.shape[0]})."
        )
    if t.dtype.kind not in "iu":
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {target.dtype.title}"
        )
    axis = 0 if a.ndim == 1 else 1
    expected = a.shape[:axis] + a.shape[axis + 1 :]
    if t.shape != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(t.shape)}")
    classes = int(a.shape[axis])
    if weight is not None and weight._a.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight._a.shape)}"
        )
    if weight is not None and weight._a.dtype != a.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.title} but found {weight.dtype.title}: weight has "
            "to have the dtype of input; cast it with .to()"
        )
    return classes


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input at each target's class, times the class's weight; the mean is over the weights that
    count.

    input: log-probabilities, (classes,) or (batch, classes, ...); target: class indices; weight:
    (classes,). Errors: IndexError for a target that is no class (on the CPU), ValueError and
    RuntimeError for shapes. Floating.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    classes = check_classes(input, target, weight)
    ignored = counted_targets(target._a, classes, ignore_index)
    if weight is not None and weight.requires_grad:
        return _with_learned_weight(input, target, weight, ignored, reduction)
    return xp.nll_loss(input, target, weight, ignore_index=ignored, reduction=reduction)


def _with_learned_weight(
    scores: Tensor, target: Tensor, weight: Tensor, ignored: int | None, reduction: str
) -> Tensor:
    """nll_loss with a gradient for the weight too, which PyTorch refuses: from its parts."""
    weights = xp.gather_rows(weight, target, skip=ignored)
    losses = -xp.pick_class(scores, target, ignore_index=ignored) * weights
    if reduction == "mean":
        return xp.sum(losses) / xp.sum(weights)
    return reduce_loss(losses, reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of softmax(input) with class indices or class probabilities.

    input: scores, (classes,) or (batch, classes, ...), floating. target: indices of the shape
    without classes, or probabilities of input's shape. weight: (classes,). ignore_index: targets
    that do not count. label_smoothing: share of the target spread evenly over all classes.
    Errors: as nll_loss; RuntimeError for label_smoothing outside [0, 1].
    """
    a, t = input._a, target._a
    if (  # the usual call, with as little Python as can be
        t.ndim == 1
        and a.ndim == 2
        and weight is None
        and label_smoothing == 0.0
        and (reduction == "mean" or reduction == "sum")
        and size_average is reduce is None
        and a.shape[0] == t.shape[0]
        and t.dtype.kind in "iu"
    ):
        ignored = counted_targets(t, a.shape[1], ignore_index)
        return xp.cross_entropy(input, target, ignore_index=ignored, reduction=reduction)
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target._a.dtype.kind == "f" and input._a.shape == target._a.shape:
        return _with_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if input._a.shape == target._a.shape and input._a.ndim > 1:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.title}"
        )
    classes = check_classes(input, target, weight)
    ignored = counted_targets(target._a, classes, ignore_index)
    if weight is None or not weight.requires_grad:
        return xp.cross_entropy(
            input, target, weight, ignore_index=ignored, reduction=reduction,
            label_smoothing=label_smoothing,
        )  # fmt: skip
    scores = xp.log_softmax(input, axis=0 if input._a.ndim == 1 else 1)
    loss = _with_learned_weight(scores, target, weight, ignored, reduction)
    if label_smoothing == 0.0:
        return loss
    smooth = _smoothing(scores, target, weight, ignored, reduction)
    return (1 - label_smoothing) * loss + (label_smoothing / classes) * smooth


def _per_class(weight: Tensor, ndim: int) -> Tensor:
    return xp.reshape(weight, shape=(-1, *(1,) * (ndim - 2)) if ndim > 2 else (-1,))


def _smoothing(
    scores: Tensor, target: Tensor, weight: Tensor, ignored: int | None, reduction: str
) -> Tensor:
    """-sum over classes of weight * log-probability where the target counts; its mean divides as
    the main loss does.
    """
    weighted = scores * _per_class(weight, scores._a.ndim)
    if ignored is not None:
        weighted = xp.mask_ignored(weighted, target, ignore_index=ignored)
    losses = -xp.sum(weighted, axis=0 if scores._a.ndim == 1 else 1)
    if reduction != "mean":
        return reduce_loss(losses, reduction)
    return xp.sum(losses) / xp.sum(xp.gather_rows(weight, target, skip=ignored))


def _with_probabilities(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    ndim = input._a.ndim
    axis = 0 if ndim == 1 else 1
    classes = int(input._a.shape[axis])
    if weight is not None and weight._a.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight._a.shape)}"
        )
    if label_smoothing > 0.0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    products = xp.log_softmax(input, axis=axis) * target
    if weight is not None:
        products = products * _per_class(weight, ndim)
    losses = -xp.sum(products, axis=axis)
    if reduction == "mean":
        return xp.sum(losses) / (input._a.size // classes if classes else 0)
    return reduce_loss(losses, reduction)
