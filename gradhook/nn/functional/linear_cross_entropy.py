"""The cross entropy of a linear map's scores, in one call."""

from __future__ import annotations

from typing import Any

from gradhook.nn.functional.loss import cross_entropy
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: None = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    input: (features,) or (batch, features); linear_weight: (classes, *out, features); linear_bias:
    (classes, *out); target: class indices (batch, *out), or probabilities (batch, classes, *out).
    Floating.
    ignore_index: for indices only; None is -100.
    Errors: RuntimeError for shapes; as cross_entropy; NotImplementedError for `options`, PyTorch's
    choice of chunks. Source: torch.nn.functional.linear_cross_entropy.
    """
    if options is not None:
        raise NotImplementedError(
            "linear_cross_entropy: the scores are computed at once; found options="
            f"{options!r}, expected None (for less memory call it on parts of the batch under "
            "gradhook.utils.checkpoint)"
        )
    a, w = input._a, linear_weight._a
    classes, out = _check(a, w, linear_bias)
    flat = xp.reshape(linear_weight, shape=(-1, int(w.shape[-1]))) if out else linear_weight
    bias = None if linear_bias is None else xp.reshape(linear_bias, shape=(-1,))
    scores = xp.linear(input, flat, bias)
    if out:
        scores = xp.reshape(scores, shape=(int(a.shape[0]), classes, *out))
    if target._a.shape == scores._a.shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    return cross_entropy(
        scores,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _check(a: Any, w: Any, bias: Tensor | None) -> tuple[int, tuple[int, ...]]:
    """The number of classes and the further output axes. Errors: RuntimeError for shapes."""
    if a.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {a.ndim}")
    if w.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {w.ndim}")
    if a.shape[-1] != w.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{a.shape[-1]} and {w.shape[-1]}, respectively"
        )
    shape = tuple(int(k) for k in w.shape[:-1])
    if bias is not None and tuple(bias._a.shape) != shape:
        raise RuntimeError(f"expected linear_bias shape {shape}, got {tuple(bias._a.shape)}")
    if len(shape) > 1 and a.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(w.shape)} requires batched "
            f"input, (N, {a.shape[0]}), got unbatched input with shape {tuple(a.shape)}"
        )
    return shape[0], shape[1:]
