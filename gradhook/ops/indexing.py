"""Indexing by position: slices (views), index arrays (copies), and the writes that are their
gradients.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gradhook.ops.axes import accumulate_at, wrap
from gradhook.ops.table import op


@op(
    torch=None,
    view=True,
    linear=True,
    x=lambda xp, g, index, x_shape: xp.unslice(g, index=index, shape=x_shape),
)
def slice_view(xp: Any, x: Any, *, index: tuple[Any, ...]) -> Any:
    """x[index] for ints, slices, None and Ellipsis: a view. x: any shape. Result: dtype of x."""
    return x[index] if index else x.reshape(x.shape)


@op(torch=None, linear=True, x=lambda xp, g, index: xp.slice_view(g, index=index))
def unslice(xp: Any, x: Any, *, index: tuple[Any, ...], shape: Any) -> Any:
    """Zeros with x at [index]: the transpose of slice_view.

    x: the shape that index selects. Result: `shape`.
    """
    result = xp.zeros(tuple(shape), x.dtype)
    result[index] = x
    return result


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, index, x_shape: xp.put_index(g, index=index, shape=x_shape),
)
def take_index(xp: Any, x: Any, *, index: tuple[Any, ...]) -> Any:
    """x[index] with index arrays (int64 or bool) beside slices: a copy.

    x: any shape. Result: dtype of x.

    Errors: IndexError when an index is out of range.
    """
    return x[index]


@op(torch=None, linear=True, x=lambda xp, g, index: xp.take_index(g, index=index))
def put_index(xp: Any, x: Any, *, index: tuple[Any, ...], shape: Any) -> Any:
    """Zeros with x added at [index], repeated indices summing: the transpose of take_index.

    Result: `shape`.
    """
    shape = tuple(shape)
    result = xp.zeros(shape, x.dtype)
    if not any(
        isinstance(i, np.ndarray) or (hasattr(i, "dtype") and i.dtype.kind != "b")
        for i in index
        if i is not None
    ):
        result[index] = x
        return result
    add_at(xp, result, index, x)
    return result


def positions(xp: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """The flat positions that `index` selects of an array of this shape."""
    return xp.arange(prod(shape)).reshape(shape)[index]


def add_at(xp: Any, target: Any, index: tuple[Any, ...], values: Any) -> None:
    """Add values at target[index] in place; repeated positions sum. target: contiguous."""
    if values.size <= SMALL:
        accumulate_at(xp, target, index, values)
        return
    flat = positions(xp, target.shape, index)
    values = xp.broadcast_to(values, flat.shape).ravel().astype(target.dtype, copy=False)
    accumulate_at(xp, target.reshape(-1), flat.ravel(), values)


SMALL = 512  # elements up to which NumPy's add.at of several dimensions is the faster


@op(
    torch=None,
    x=lambda xp, g, index, accumulate: g if accumulate else xp.clear_index(g, index=index),
    value=lambda xp, g, index: xp.take_index(g, index=index),
    linear=True,
)
def index_put(
    xp: Any, x: Any, value: Any, *, index: tuple[Any, ...], accumulate: bool = False
) -> Any:
    """x with value at [index] (added with `accumulate`).

    value: broadcasts to what index selects. Result: as x.

    Errors: RuntimeError when value does not broadcast, IndexError when an index is out of range.
    """
    result = x.copy()
    if value.dtype.kind == "c" and x.dtype.kind != "c":
        value = value.real
    try:
        if accumulate:
            result = xp.ascontiguousarray(result)
            add_at(xp, result, index, value.astype(x.dtype, copy=False))
        else:
            result[index] = value
    except ValueError as error:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            "indexing result"
        ) from error
    return result


@op(torch=None, linear=True, x=lambda xp, g, index: xp.clear_index(g, index=index))
def clear_index(xp: Any, x: Any, *, index: tuple[Any, ...]) -> Any:
    """x with 0 at [index]. x: any shape. Result: shape and dtype of x."""
    result = x.copy()
    result[index] = 0
    return result


@op(
    torch="index_select(input, dim, index)",
    linear=True,
    index=None,
    x=lambda xp, g, index, axis, x_shape: xp.index_accumulate(g, index, axis=axis, shape=x_shape),
)
def index_select(xp: Any, x: Any, index: Any, *, axis: int) -> Any:
    """The slices of x that `index` names along `axis`.

    index: (n,) or () int. Result: axis n long, a copy.

    Errors: IndexError when an index is out of range or index has several dimensions.
    """
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    axis = wrap(axis, x.ndim)
    if x.ndim == 0:
        return xp.take(x.reshape(1), index.reshape(-1)).reshape(())
    if (
        type(x).__module__ == "numpy"
        and index.size
        and (index.min() < 0 or index.max() >= x.shape[axis])
    ):
        raise IndexError("index out of range in self")
    return xp.take(x, index.reshape(-1), axis=axis)


@op(
    torch=None,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis: xp.index_select(g, index, axis=axis),
)
def index_accumulate(xp: Any, x: Any, index: Any, *, axis: int, shape: Any) -> Any:
    """Zeros with the slices of x added where `index` says: the transpose of index_select.

    Result: `shape`.
    """
    result = xp.zeros(tuple(shape), x.dtype)
    if len(shape) == 0:
        return x.reshape(())
    add_at(xp, result, (*(slice(None),) * (axis % len(shape)), index.reshape(-1)), x)
    return result


@op(
    torch="index_add(input, dim, index, source, *, alpha=1)",
    inplace=True,
    linear=True,
    index=None,
    x=lambda xp, g: g,
    source=lambda xp, g, index, axis, alpha: (
        xp.index_select(g, index, axis=axis)
        if alpha == 1
        else xp.index_select(g, index, axis=axis) * alpha
    ),
)
def index_add(xp: Any, x: Any, index: Any, source: Any, *, axis: int, alpha: Any = 1) -> Any:
    """x with alpha * source added to its slices at `index` along `axis`.

    index: (n,); source: as x, axis n long.

    Errors: RuntimeError when the dtypes differ or the shapes do not fit.
    """
    if source.dtype != x.dtype:
        raise RuntimeError("index_add_(): self and source expected to have the same dtype")
    along = axis % max(x.ndim, 1)
    if (*x.shape[:along], *x.shape[along + 1 :]) != (
        *source.shape[:along],
        *source.shape[along + 1 :],
    ):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
        )
    result = x.copy()
    if x.ndim == 0:
        return result + source.reshape(-1).sum() * alpha
    where = (*(slice(None),) * wrap(axis, x.ndim), index.reshape(-1))
    accumulate_at(xp, result, where, source if alpha == 1 else source * x.dtype.type(alpha))
    return result


@op(
    torch=None,
    inplace=True,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis: xp.index_fill(g, index, axis=axis, value=0),
)
def index_fill(xp: Any, x: Any, index: Any, *, axis: int, value: Any) -> Any:
    """x with a number at its slices at `index` along `axis`.

    index: (n,) int. Result: shape and dtype of x.
    """
    result = x.copy()
    if x.ndim == 0:
        return xp.full((), value, x.dtype) if index.size else result
    result[(*(slice(None),) * wrap(axis, x.ndim), index.reshape(-1))] = value
    return result


@op(
    torch="index_copy(input, dim, index, source)",
    inplace=True,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis: xp.index_fill(g, index, axis=axis, value=0),
    source=lambda xp, g, index, axis: xp.index_select(g, index, axis=axis),
)
def index_copy(xp: Any, x: Any, index: Any, source: Any, *, axis: int) -> Any:
    """x with source at its slices at `index` along `axis`.

    index: (n,); source: as x, axis n long. Result: as x.
    """
    result = x.copy()
    if x.ndim == 0:
        return source.reshape(()).copy()
    result[(*(slice(None),) * wrap(axis, x.ndim), index.reshape(-1))] = source
    return result


@op(torch=None, x=None)
def nonzero(xp: Any, x: Any) -> Any:
    """The coordinates of the nonzero elements, in order.

    x: any shape. Result: (count, x.ndim), int64.
    """
    if x.ndim == 0:
        return xp.zeros((int(bool(x)), 0), "i8")
    return xp.stack(xp.nonzero(x), axis=1).astype("i8", copy=False)
