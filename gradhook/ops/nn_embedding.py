"""Rows of a table by index, and their transpose."""

from __future__ import annotations

from math import prod
from typing import Any

from gradhook.ops.axes import accumulate_at
from gradhook.ops.table import op

Array = Any


@op(
    method=False,
    linear=True,
    indices=None,
    weight=lambda xp, g, indices, weight_shape, padding_idx, by_frequency: xp.scatter_rows(
        g, indices, shape=weight_shape, skip=padding_idx, by_frequency=by_frequency
    ),
)
def embedding(
    xp: Any,
    indices: Array,
    weight: Array,
    *,
    padding_idx: int | None = None,
    by_frequency: bool = False,
) -> Array:
    """weight[indices].

    indices: any shape, integer; weight: (rows, *rest). Result: (*indices.shape, *rest).

    The row padding_idx gets no gradient; by_frequency divides a row's gradient by how often it was
    read.
    """
    return weight[indices]


@op(
    method=False,
    linear=True,
    weight=lambda xp, g, indices, weight_shape, skip, by_frequency: xp.scatter_rows(
        g, indices, shape=weight_shape, skip=skip, by_frequency=by_frequency
    ),
    indices=None,
)
def gather_rows(
    xp: Any, weight: Array, indices: Array, *, skip: int | None = None, by_frequency: bool = False
) -> Array:
    """weight[indices] with zeros where an index is `skip`, the transpose of `scatter_rows`."""
    scale = _row_scale(xp, indices, weight.shape, skip, by_frequency, weight.dtype)
    if scale is None:
        return weight[indices]
    return weight[xp.where(scale != 0, indices, 0)] * scale.reshape(
        (*indices.shape, *(1,) * (weight.ndim - 1))
    )


@op(
    method=False,
    linear=True,
    grad=lambda xp, g, indices, skip, by_frequency: xp.gather_rows(
        g, indices, skip=skip, by_frequency=by_frequency
    ),
    indices=None,
)
def scatter_rows(
    xp: Any,
    grad: Array,
    indices: Array,
    *,
    shape: tuple[int, ...],
    skip: int | None = None,
    by_frequency: bool = False,
) -> Array:
    """Sums of grad's rows by index; rows whose index is `skip` are dropped.

    grad: (*indices.shape, *rest). Result: exactly `shape` (rows, *rest). by_frequency: means
    instead of sums.
    """
    scale = _row_scale(xp, indices, shape, skip, by_frequency, grad.dtype)
    if scale is not None:
        indices = xp.where(scale != 0, indices, 0)
        grad = grad * scale.reshape((*indices.shape, *(1,) * (len(shape) - 1)))
    out = xp.zeros(tuple(shape), dtype=grad.dtype)
    accumulate_at(xp, out, indices.reshape(-1), grad.reshape(prod(indices.shape), *shape[1:]))
    return out


def _row_scale(
    xp: Any, indices: Array, shape: Any, skip: int | None, by_frequency: bool, dtype: Any
) -> Array | None:
    """What each index's row is multiplied by: 0 for `skip`, 1 / count by frequency; None when all
    are 1.
    """
    if skip is None and not by_frequency:
        return None
    if not by_frequency:
        return xp.asarray(indices != skip, dtype=dtype)
    kept = None if skip is None else indices != skip
    safe = indices if kept is None else xp.where(kept, indices, 0)
    counts = xp.zeros(shape[0], dtype=dtype)  # not bincount: on a device it waits for the maximum
    xp.add.at(counts, safe.reshape(-1), 1)
    often = xp.maximum(counts[safe], 1)
    return xp.asarray((1 if kept is None else kept) / often, dtype=dtype)
