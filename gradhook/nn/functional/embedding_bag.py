"""Sums, means and maxima of bags of rows of a table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradhook import creation
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.functional.embedding import embedding
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of weight that each bag of indices names.

    input: (bags, size), or (n,) with offsets, (bags,): where each bag starts, with
    include_last_offset also where the last one ends; integer. weight: (rows, columns). mode: "sum",
    "mean" or "max"; an empty bag gives 0. per_sample_weights: as input, for "sum". padding_idx:
    this row is in no bag. sparse is accepted and the gradient is dense. Result: (bags, columns).
    Errors: ValueError, NotImplementedError, RuntimeError.
    Source: torch.nn.functional.embedding_bag.
    """
    _check(input, weight, offsets, mode, scale_grad_by_freq, sparse, per_sample_weights)
    indices = input._a.reshape(-1)
    bags, number = _bags(input, offsets, include_last_offset)
    if padding_idx is not None:
        padding_idx %= weight._a.shape[0]
    rows = embedding(
        make(indices), weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
    )
    kept = None if padding_idx is None else indices != padding_idx
    result = creation.zeros((number, weight._a.shape[1]), dtype=rows.dtype, device=rows.device)
    if mode == "max":
        return _maxima(result, rows, bags, kept)
    if per_sample_weights is not None:
        rows = rows * xp.reshape(per_sample_weights, shape=(-1, 1))
    if kept is not None:
        rows = xp.masked_fill(rows, make(~kept[:, None]), value=0)
    total = xp.index_add(result, make(bags), rows, axis=0)
    if mode == "sum":
        return total
    return total / _sizes(rows, bags, kept, number)


def _sizes(rows: Tensor, bags: Any, kept: Any, number: int) -> Tensor:
    """How many rows each bag has, at least 1: (bags, 1). No bincount, which waits on a device."""
    dtype, device = rows.dtype, rows.device
    shape = (rows._a.shape[0], 1)
    ones = creation.ones(shape, dtype=dtype, device=device)
    if kept is not None:
        ones = xp.masked_fill(ones, make(~kept[:, None]), value=0)
    zeros = creation.zeros((number, 1), dtype=dtype, device=device)
    return xp.clamp(xp.index_add(zeros, make(bags), ones, axis=0), low=1)


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[Any, int]:
    """The bag of each index, and how many bags there are. Errors: RuntimeError (on the CPU)."""
    module, shape = ARRAY_MODULES[type(input._a)], input._a.shape
    if offsets is None:
        return module.arange(shape[0] * shape[1]) // max(shape[1], 1), int(shape[0])
    starts, n = offsets._a, int(shape[0])
    if type(starts) is np.ndarray and starts.size:
        if starts[0] != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {starts[0]}"
            )
        if starts[-1] > n:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length({n}), but got offsets[-1] of "
                f"{starts[-1]}"
            )
    number = len(starts) - 1 if include_last_offset else len(starts)
    places = module.arange(n, dtype=starts.dtype)
    return module.searchsorted(starts[:number], places, side="right") - 1, number


def _maxima(result: Tensor, rows: Tensor, bags: Any, kept: Any) -> Tensor:
    """The largest row of each bag, element by element; 0 for an empty bag."""
    if kept is not None:
        rows = xp.masked_fill(rows, make(~kept[:, None]), value=-math.inf)
    where = xp.expand(make(bags[:, None]), size=tuple(rows._a.shape))
    lowest = creation.full_like(result, -math.inf)
    found: Tensor = lowest.scatter_reduce(0, where, rows, reduce="amax", include_self=False)
    return xp.masked_fill(found, make(found._a == -math.inf), value=0)


def _check(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: str,
    by_frequency: bool,
    sparse: bool,
    per_sample_weights: Tensor | None,
) -> None:
    if per_sample_weights is not None and input._a.shape != per_sample_weights._a.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if weight._a.ndim != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight._a.ndim}"
        )
    if input._a.ndim not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input._a.ndim}"
        )
    if input._a.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if input._a.ndim == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets is not None and offsets._a.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and by_frequency:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
