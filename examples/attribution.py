"""What each input of a layer adds to a score, by one forward hook; minilm.py asks it for words.

A hook may return another output for its layer. So the output of a table of words becomes a leaf,
and its gradient is there after the backward; or it becomes a batch of outputs on the way from a
baseline to the words, and integrated gradients (M. Sundararajan et al., arXiv:1703.01365) take one
pass. The model's code does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradhook as gh
from gradhook import nn

Score = Callable[[], gh.Tensor]


def gradient_times_input(layer: nn.Module, score: Score) -> gh.Tensor:
    """What each element of the layer's output adds to the score to first order, from zero.

    score(): calls the layer once. Result: the shape of the layer's output.
    """
    leaves = []

    def keep(layer: nn.Module, args: Any, output: gh.Tensor) -> gh.Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[0]

    with layer.register_forward_hook(keep):
        (gradient,) = gh.autograd.grad(score().sum(), leaves)
    added: gh.Tensor = gradient * leaves[0].detach()
    return added


def integrated_gradients(
    layer: nn.Module, score: Score, baseline: gh.Tensor, points: int = 32
) -> gh.Tensor:
    """What each element of the layer's output adds to the score, on the way from the baseline.

    score(): calls the layer once, for a batch of 1; the hook makes it a batch of `points`, the
    nodes of Gauss and Legendre's rule. baseline: (1, ...), as the layer's output. Result: the same
    shape; its sum is the score minus that of the baseline.
    """
    baseline = baseline.detach()
    nodes, weights = (
        gh.tensor(a / 2, device=baseline.device, dtype=baseline.dtype)
        for a in np.polynomial.legendre.leggauss(points)
    )
    changes, leaves = [], []

    def spread(layer: nn.Module, args: Any, output: gh.Tensor) -> gh.Tensor:
        changes.append(output.detach() - baseline)
        shares = (nodes + 0.5).reshape(-1, *[1] * (baseline.ndim - 1))
        leaves.append((baseline + shares * changes[0]).requires_grad_())
        return leaves[0]

    with layer.register_forward_hook(spread):
        (gradient,) = gh.autograd.grad(score().sum(), leaves)
    mean = gh.tensordot(weights, gradient, 1).unsqueeze(0)
    return mean * changes[0]
