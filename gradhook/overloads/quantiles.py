"""quantile and nanquantile: order statistics with interpolation between neighbours."""

from __future__ import annotations

from typing import Any

from gradhook.ops.axes import wrap
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = ("quantile", "nanquantile")
METHODS = ("quantile", "nanquantile")
PROPERTIES: tuple[str, ...] = ()

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-quantiles along dim (of all elements without), NaN where there is one.

    q: a number or a tensor of up to one dimension, in [0, 1]. Result: the reduced shape, after a
    dimension of q if it has one. Errors: RuntimeError or ValueError for other arguments. Floating.
    """
    return _quantile(input, q, dim, keepdim, interpolation, ignore_nan=False)


def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """As quantile, of the elements that are not NaN.

    input: any shape, floating; q: 0-d or (m,). Result: q's shape before the reduced one.
    """
    return _quantile(input, q, dim, keepdim, interpolation, ignore_nan=True)


def _quantile(
    input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    if input._a.dtype.kind != "f" or input._a.dtype.itemsize < 4:
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
        q = ops.fill(ops.zeros_like(ops.sum(input.detach())), value=float(q))
    if q.ndim > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if q.dtype != input.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if input.numel() == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    axis = 0 if dim is None else wrap(dim, input.ndim)
    whole = dim is None or input.ndim == 0
    rows = (
        ops.reshape(input, shape=(-1,))
        if whole
        else ops.movedim(input, source=axis, destination=-1)
    )
    found = _interpolated(rows, ops.reshape(q, shape=(-1,)), interpolation, ignore_nan)
    found = ops.movedim(found, source=-1, destination=0)
    if keepdim:
        kept = (1,) * input.ndim if whole else _with(tuple(found.shape[1:]), axis)
        found = ops.reshape(found, shape=(found.shape[0], *kept))
    return found if q.ndim else ops.squeeze(found, axis=0)


def _with(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis:])


def _interpolated(rows: Tensor, q: Tensor, interpolation: str, ignore_nan: bool) -> Tensor:
    """The quantiles of each row. rows: (..., n); q: (k,). Result: (..., k)."""
    values = multi.sort(rows, axis=-1)[0]
    n = rows.shape[-1]
    missing = ops.isnan(values)
    last: Any = n - 1
    if ignore_nan:
        present = ops.sum(ops.logical_not(missing), axis=-1, keepdims=True)
        last = ops.cast(ops.clip_low(ops.subtract(present, 1), 0), dtype=rows.dtype)
    ranks = ops.multiply(q, last)
    shape = (*rows.shape[:-1], q.shape[0])
    ranks = ops.broadcast_to(ranks, shape=shape)
    if not ignore_nan:
        ranks = ops.masked_fill(ranks, ops.any(missing, axis=-1, keepdims=True), value=n - 1)
    if interpolation in ("lower", "higher", "nearest"):
        kind = {"lower": "floor", "higher": "ceil", "nearest": "round"}[interpolation]
        return ops.gather(values, ops.cast(getattr(ops, kind)(ranks), dtype="int64"), axis=-1)
    below = ops.floor(ranks)
    weight: Any = 0.5 if interpolation == "midpoint" else ops.subtract(ranks, below)
    low = ops.gather(values, ops.cast(below, dtype="int64"), axis=-1)
    high = ops.gather(values, ops.cast(ops.ceil(ranks), dtype="int64"), axis=-1)
    return ops.lerp(low, high, weight)
