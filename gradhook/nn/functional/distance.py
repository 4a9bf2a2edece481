"""Distances and similarities of vectors, a pair each."""

from __future__ import annotations

import numpy as np

from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between x1 and x2 along dim; norms below eps count as eps.

    x1, x2: floating, shapes broadcast. Result: without dim.
    """
    shape = np.broadcast_shapes(x1._a.shape, x2._a.shape)
    pair = [x if x._a.shape == shape else xp.expand(x, size=shape) for x in (x1, x2)]
    parts = [x / xp.clamp(_norm(x, 2.0, dim, True), low=eps) for x in pair]
    return xp.sum(parts[0] * parts[1], axis=dim)


def _norm(x: Tensor, p: float, dim: int, keepdim: bool) -> Tensor:
    return xp.vector_norm(x, ord=p, axis=dim, keepdims=keepdim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last axis. x1, x2: floating, shapes broadcast."""
    return _norm(x1 - x2 + eps, p, -1, keepdim)
