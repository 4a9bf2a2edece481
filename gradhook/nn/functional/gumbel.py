"""Samples of a relaxed categorical distribution that gradients pass."""

from __future__ import annotations

import warnings

from gradhook import creation
from gradhook.hooks.notices import caller_depth
from gradhook.nn.recorded import ops as xp
from gradhook.ops.axes import wrap
from gradhook.tensor import Tensor


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau) along dim. logits: floating, any shape.

    hard: the one-hot of its largest, with the gradient of the softmax (straight-through). eps: has
    no effect, as in PyTorch. Result: shape and dtype of logits. Errors: RuntimeError for other
    dtypes, IndexError for dim. Source: E. Jang et al., "Categorical Reparameterization with
    Gumbel-Softmax" (2017); torch.nn.functional.gumbel_softmax.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=caller_depth())
    wrap(dim, logits._a.ndim)
    waits = creation.empty_like(logits).exponential_()
    soft = xp.softmax((logits - xp.log(waits)) / tau, axis=dim)
    if not hard:
        return soft
    place = xp.argmax(soft.detach(), axis=dim, keepdims=True)
    zeros = creation.zeros_like(soft, requires_grad=False)
    one_hot = xp.scatter_value(zeros, place, axis=dim, value=1.0)
    return one_hot - soft.detach() + soft
