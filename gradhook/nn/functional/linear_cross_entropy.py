"""The cross entropy of a linear map's scores, in one call."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from gradhook.nn.functional.chunking import LinearCrossEntropyOptions, Recomputed
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
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    input: (features,) or (batch, features); linear_weight: (classes, *out, features); linear_bias:
    (classes, *out); target: class indices (batch, *out), or probabilities (batch, classes, *out).
    Floating.
    ignore_index: for indices only; None is -100. options: parts of the batch, whose scores are not
    kept; None: all at once, kept.
    Errors: RuntimeError for shapes and dtypes; as cross_entropy; ValueError for a reduction.
    Source: torch.nn.functional.linear_cross_entropy.
    """
    a, w = input._a, linear_weight._a
    classes, out = _check(a, w, linear_bias)
    if tuple(target._a.shape) == (*a.shape[:-1], classes, *out) and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index

    def loss(x: Tensor, flat: Tensor, bias: Any, of: Tensor, scale: Any, reduced: str) -> Tensor:
        scores = xp.linear(x, flat, bias)
        if out:
            scores = xp.reshape(scores, shape=(int(x.shape[0]), classes, *out))
        return cross_entropy(
            scores, of, scale, None, ignored, reduction=reduced, label_smoothing=label_smoothing
        )

    flat = xp.reshape(linear_weight, shape=(-1, int(w.shape[-1]))) if out else linear_weight
    bias = None if linear_bias is None else xp.reshape(linear_bias, shape=(-1,))
    if options is None or a.ndim == 1 or len(a) == 0:
        return loss(input, flat, bias, target, weight, reduction)
    wide = options.wide(a.dtype)
    x, flat = input.to(wide), flat.to(wide)
    bias, scale = (None if t is None else t.to(wide) for t in (bias, weight))
    target = target.to(wide) if target._a.dtype.kind == "f" else target
    part = partial(loss, reduced="none" if reduction == "none" else "sum")
    rows = options.rows(len(a), a.shape[1], len(flat))
    parts = [
        Recomputed.apply(part, some, flat, bias, of, scale)
        for some, of in zip(x.split(rows), target.split(rows), strict=True)
    ]
    count = _counted(target, scale, ignored, len(a), out) if reduction == "mean" else None
    return _together(parts, reduction, count).to(input.dtype)


def _together(parts: list[Tensor], reduction: str, count: Any) -> Tensor:
    """The loss of all parts. Errors: ValueError for a reduction that does not exist."""
    if reduction == "none":
        joined: Tensor = xp.concat(*parts)
        return joined
    if reduction not in ("sum", "mean"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    total = sum(parts[1:], parts[0])
    return total if reduction == "sum" else total / count


def _counted(target: Tensor, weight: Tensor | None, ignored: Any, batch: int, out: Any) -> Any:
    """What the mean divides by: the weights of the targets that count; all of probabilities."""
    if target._a.dtype.kind == "f":
        return batch * prod(out)
    kept = target != ignored
    if weight is None:
        return kept.sum()
    return (weight[target.masked_fill(~kept, 0)] * kept).sum()


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
