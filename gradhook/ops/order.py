"""Sorting and selecting by order: values and int64 indices; only the values have a gradient."""

from __future__ import annotations

from typing import Any

from gradhook.ops.axes import wrap
from gradhook.ops.cumulative import scanned
from gradhook.ops.table import op


def _lifted(x: Any) -> Any:
    """x with at least one dimension."""
    return x.reshape(1) if x.ndim == 0 else x


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, keepdims, x_shape: xp.put_reduced(
        g0, out1, shape=x_shape, axis=axis, keepdims=keepdims
    ),
    takes="biuf",
)
def max_dim(xp: Any, x: Any, *, axis: int, keepdims: bool = False) -> tuple[Any, Any]:
    """Largest element along one dimension and its first index, NaN first.

    x: real. Results: reduced shape, int64.
    """
    return _extremum(xp, "max", x, axis, keepdims)


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, keepdims, x_shape: xp.put_reduced(
        g0, out1, shape=x_shape, axis=axis, keepdims=keepdims
    ),
    takes="biuf",
)
def min_dim(xp: Any, x: Any, *, axis: int, keepdims: bool = False) -> tuple[Any, Any]:
    """Smallest element along one dimension and its first index, NaN first.

    x: real. Results: reduced shape, int64.
    """
    return _extremum(xp, "min", x, axis, keepdims)


def _extremum(xp: Any, name: str, x: Any, axis: int, keepdims: bool) -> tuple[Any, Any]:
    axis = wrap(axis, x.ndim)
    if x.ndim == 0:
        return x.copy(), xp.zeros((), "i8")
    if x.shape[axis] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
    values = getattr(x, name)(axis=axis, keepdims=keepdims)
    return values, getattr(x, "arg" + name)(axis=axis, keepdims=keepdims)


@op(
    torch=None,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis, keepdims: xp.take_reduced(g, index, axis=axis, keepdims=keepdims),
)
def put_reduced(
    xp: Any, x: Any, index: Any, *, shape: tuple[int, ...], axis: int, keepdims: bool
) -> Any:
    """x at `index` along `axis` of zeros.

    x, index: the reduced `shape`. Result: `shape`, dtype of x.
    """
    if len(shape) == 0:
        return x.copy()
    if not keepdims:
        x, index = xp.expand_dims(x, axis), xp.expand_dims(index, axis)
    n = shape[axis]
    along = xp.arange(n).reshape((n,) + (1,) * (len(shape) - 1 - axis % len(shape)))
    return xp.where(along == index, x, x.dtype.type(0))


@op(
    torch=None,
    linear=True,
    index=None,
    x=lambda xp, g, index, x_shape, axis, keepdims: xp.put_reduced(
        g, index, shape=x_shape, axis=axis, keepdims=keepdims
    ),
)
def take_reduced(xp: Any, x: Any, index: Any, *, axis: int, keepdims: bool) -> Any:
    """x at `index` along `axis`.

    x: any shape; index: the reduced shape. Result: shape of index, dtype of x.
    """
    if x.ndim == 0:
        return x.copy()
    if keepdims:
        return xp.take_along_axis(x, index, axis)
    return xp.take_along_axis(x, xp.expand_dims(index, axis), axis).squeeze(axis)


@op(
    torch="sort(input, dim=-1, descending=False, stable=False)",
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, x_shape: xp.scatter_zeros(
        g0, out1, axis=axis, shape=x_shape, unique=True
    ),
    takes="biuf",
)
def sort(
    xp: Any, x: Any, *, axis: int = -1, descending: bool = False, stable: bool = False
) -> tuple[Any, Any]:
    """x in order along `axis`, NaN as the largest, and where each came from; always stable.

    Results: shape of x.
    """
    axis = wrap(axis, x.ndim)
    lifted = _lifted(x)
    if descending:
        n = lifted.shape[axis]
        order = xp.flip(n - 1 - xp.argsort(xp.flip(lifted, axis), axis=axis, kind="stable"), axis)
    else:
        order = xp.argsort(lifted, axis=axis, kind="stable")
    return xp.take_along_axis(lifted, order, axis).reshape(x.shape), order.reshape(x.shape)


@op(
    torch="topk(input, k, dim=-1, largest=True, sorted=True)",
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, x_shape: xp.scatter_zeros(
        g0, out1, axis=axis, shape=x_shape, unique=True
    ),
    takes="biuf",
)
def topk(
    xp: Any, x: Any, *, k: int, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Any, Any]:
    """The k largest (smallest) along `axis` in order, and their indices.

    x: real. Results: shape of x, axis k long.

    Errors: RuntimeError when the dimension has fewer than k elements.
    """
    axis = wrap(axis, x.ndim)
    if not 0 <= k <= (x.shape[axis] if x.ndim else 1):
        raise RuntimeError("selected index k out of range")
    values, order = sort(xp, x, axis=axis, descending=largest)
    if x.ndim == 0:
        return (values, order) if k else (values.reshape(1)[:0], order.reshape(1)[:0])
    cut = (*(slice(None),) * axis, slice(0, k))
    return values[cut].copy(), order[cut].copy()


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, keepdims, x_shape: xp.put_reduced(
        g0, out1, shape=x_shape, axis=axis, keepdims=keepdims
    ),
    takes="biuf",
)
def kth_smallest(xp: Any, x: Any, *, k: int, axis: int, keepdims: bool = False) -> tuple[Any, Any]:
    """The k-th smallest (from 1) along `axis` and its index. x: real. Results: reduced shape.

    Errors: RuntimeError when k is out of range.
    """
    axis = wrap(axis, x.ndim)
    if not 1 <= k <= (x.shape[axis] if x.ndim else 1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(axis))
    values, order = sort(xp, x, axis=axis)
    if x.ndim == 0:
        return values, order
    cut = (*(slice(None),) * axis, slice(k - 1, k))
    values, order = values[cut].copy(), order[cut].copy()
    return (values, order) if keepdims else (values.squeeze(axis), order.squeeze(axis))


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, keepdims, x_shape: xp.put_reduced(
        g0, out1, shape=x_shape, axis=axis, keepdims=keepdims
    ),
    takes="biuf",
)
def median_dim(xp: Any, x: Any, *, axis: int, keepdims: bool = False) -> tuple[Any, Any]:
    """The lower median along `axis`, NaN if there is one, and its index.

    x: real. Results: reduced shape.
    """
    axis = wrap(axis, x.ndim)
    if x.ndim == 0:
        return x.copy(), xp.zeros((), "i8")
    n = x.shape[axis]
    if n == 0:
        raise IndexError(f"median(): Expected reduction dim {axis} to have non-zero size.")
    order = xp.argsort(x, axis=axis, kind="stable")
    middle = xp.take(order, xp.asarray([(n - 1) // 2]), axis=axis)
    last = xp.take(order, xp.asarray([n - 1]), axis=axis)
    if x.dtype.kind == "f":
        middle = xp.where(
            xp.isnan(xp.take_along_axis(x, last, axis)),
            xp.expand_dims(xp.isnan(x).argmax(axis), axis),
            middle,
        )
    values = xp.take_along_axis(x, middle, axis)
    return (values, middle) if keepdims else (values.squeeze(axis), middle.squeeze(axis))


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, x_shape: xp.scatter_zeros(
        g0, out1, axis=axis, shape=x_shape, unique=False
    ),
    takes="biuf",
)
def cummax(xp: Any, x: Any, *, axis: int) -> tuple[Any, Any]:
    """Running maximum along `axis` and the last index that has it. x: real. Results: shape of x."""
    return _running(xp, xp.maximum, x, axis)


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, x_shape: xp.scatter_zeros(
        g0, out1, axis=axis, shape=x_shape, unique=False
    ),
    takes="biuf",
)
def cummin(xp: Any, x: Any, *, axis: int) -> tuple[Any, Any]:
    """Running minimum along `axis` and the last index that has it. x: real. Results: shape of x."""
    return _running(xp, xp.minimum, x, axis)


def _running(xp: Any, ufunc: Any, x: Any, axis: int) -> tuple[Any, Any]:
    axis = wrap(axis, x.ndim)
    lifted = _lifted(x)
    values = scanned(xp, ufunc, lifted, axis)
    n = lifted.shape[axis]
    along = xp.arange(n).reshape((n,) + (1,) * (lifted.ndim - 1 - axis))
    hit = (lifted == values) | (xp.isnan(lifted) if lifted.dtype.kind == "f" else False)
    index = scanned(xp, xp.maximum, xp.where(hit, along, 0), axis)
    return values.reshape(x.shape), index.reshape(x.shape)


@op(
    torch=None,
    method=False,
    edges=None,
    x=None,
    takes="biuf",
)
def searchsorted(
    xp: Any, edges: Any, x: Any, *, out_int32: bool = False, right: bool = False
) -> Any:
    """Where each value would go into a sorted row.

    edges: (..., n); x: any shape, or (..., m). Result: shape of x.
    """
    side = "right" if right else "left"
    if edges.ndim == 1:
        found = xp.searchsorted(edges, x, side=side)
    elif x.size == 0:
        found = xp.zeros(x.shape, "i8")
    else:
        rows, values = edges.reshape(-1, edges.shape[-1]), x.reshape(-1, x.shape[-1])
        found = xp.stack(
            [xp.searchsorted(r, v, side=side) for r, v in zip(rows, values, strict=True)]
        ).reshape(x.shape)
    return xp.asarray(found).astype("i4" if out_int32 else "i8")


@op(
    torch=None,
    n_outputs=2,
    differentiable=(0,),
    x=lambda xp, g0, out1, axis, keepdims, x_shape: xp.put_reduced(
        g0, out1, shape=x_shape, axis=axis, keepdims=keepdims
    ),
)
def mode(xp: Any, x: Any, *, axis: int, keepdims: bool = False) -> tuple[Any, Any]:
    """The most frequent value along `axis`, the smallest of several, and its last index.

    x: real. Results: reduced shape. Errors: IndexError when nothing is reduced.
    """
    if x.dtype.kind == "c":
        raise NotImplementedError("mode is not implemented for complex numbers")
    axis = wrap(axis, x.ndim)
    if x.ndim == 0:
        return x.copy(), xp.zeros((), "i8")
    if x.shape[axis] == 0:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
    values, order = sort(xp, x, axis=axis)
    values, order = xp.moveaxis(values, axis, -1), xp.moveaxis(order, axis, -1)
    along = xp.arange(values.shape[-1])
    begins = xp.ones(values.shape, bool)
    begins[..., 1:] = values[..., 1:] != values[..., :-1]
    run = along - scanned(xp, xp.maximum, xp.where(begins, along, 0), values.ndim - 1)
    end = xp.expand_dims(run.argmax(-1), -1) if run.size else run[..., :1]
    best = xp.moveaxis(xp.take_along_axis(values, end, -1), -1, axis)
    index = xp.moveaxis(xp.take_along_axis(order, end, -1), -1, axis)
    return (best, index) if keepdims else (best.squeeze(axis), index.squeeze(axis))
