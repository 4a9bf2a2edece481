"""Distances and similarities of vectors, a pair each."""

from __future__ import annotations

import numpy as np

from gradhook import backend, dtypes
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between x1 and x2 along dim; norms below eps count as eps.

    x1, x2: floating once promoted, shapes broadcast. Result: without dim. Errors: RuntimeError.
    """
    common = dtypes.result_type([x1._a.dtype, x2._a.dtype], [], [])
    if common.kind in "biuc":
        raise RuntimeError(
            "expected common dtype to be floating point, yet common dtype is "
            f"{dtypes.of(common).title} (cosine_similarity; convert with .to(dtype))"
        )
    if x1._a.dtype != x2._a.dtype:
        x1, x2 = xp.cast(x1, dtype=common), xp.cast(x2, dtype=common)
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


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of the difference of each two rows. input: (n, features), floating.

    Result: (n (n - 1) / 2,): rows 0 and 1, 0 and 2, ..., 1 and 2, ... Equal rows give no gradient.
    Errors: RuntimeError for other dimensions, dtypes and a negative p. Source:
    torch.nn.functional.pdist; here it can be differentiated twice.
    """
    if input._a.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input._a.ndim}D")
    if input._a.dtype.kind != "f" and input.dtype.title != "BFloat16":
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = _pairs(input)
    difference = xp.index_select(input, first, axis=0) - xp.index_select(input, second, axis=0)
    return _norm(difference, float(p), -1, False)


def _pairs(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The two rows of each pair i < j, in order: int64, on the device of rows."""
    n = int(rows._a.shape[0])
    module = ARRAY_MODULES[type(rows._a)]
    with backend.place(rows._a):
        k = module.arange(n * (n - 1) // 2)
        first = ((2 * n - 1 - module.sqrt((2 * n - 1) ** 2 - 8.0 * k)) / 2).astype("i8")
        first -= first * (2 * n - 1 - first) // 2 > k  # the root may be rounded either way
        first += (first + 1) * (2 * n - 2 - first) // 2 <= k
        second = k - first * (2 * n - 1 - first) // 2 + first + 1
        return make(first), make(second)
