"""gather and the scatters: an index array as long as the values, along one dimension."""

from __future__ import annotations

from math import prod
from typing import Any

from gradhook.ops.axes import accumulate_at, wrap
from gradhook.ops.elementwise import element
from gradhook.ops.table import op


def _flat(xp: Any, shape: tuple[int, ...], index: Any, axis: int) -> Any:
    """Flat positions in an array of `shape` of the elements that gather reads with `index`: shape
    of index.
    """
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    flat = index * strides[axis]
    for k, n in enumerate(index.shape):
        if k != axis:
            flat = flat + xp.arange(n).reshape((n,) + (1,) * (index.ndim - 1 - k)) * strides[k]
    return flat


def _check(name: str, shape: tuple[int, ...], index: Any, axis: int) -> int:
    """The wrapped axis.

    Errors: RuntimeError when index has the wrong dtype, dimensions or values (NumPy).
    """
    ndim = len(shape)
    axis = wrap(axis, ndim)
    if index.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if index.size == 0:
        return axis
    if max(index.ndim, 1) != max(ndim, 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as input tensor ({name})"
        )
    for k, n in enumerate(index.shape if ndim else ()):
        if k != axis and n > shape[k]:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no "
                "larger than self "
                f"{list(shape)} apart from dimension {axis}"
            )
    size = shape[axis] if ndim else 1
    if type(index).__module__ == "numpy" and (index.min() < 0 or index.max() >= size):
        bad = index.max() if index.max() >= size else index.min()
        raise RuntimeError(f"index {bad} is out of bounds for dimension {axis} with size {size}")
    return axis


def _lift(shape: tuple[int, ...], index: Any) -> tuple[tuple[int, ...], Any]:
    return (shape or (1,)), index.reshape(index.shape or (1,))


def _sources(xp: Any, src: Any, index: Any) -> Any:
    """The elements of src that a scatter reads: its corner of the shape of index."""
    if src.ndim != index.ndim and src.size and index.size:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if any(n > m for n, m in zip(index.shape, src.shape, strict=False)):
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)}"
        )
    return src[tuple(slice(0, n) for n in index.shape)] if index.shape != src.shape else src


@op(
    torch="gather(input, dim, index, *, sparse_grad=False)",
    linear=True,
    index=None,
    x=lambda xp, g, index, axis, x_shape: xp.scatter_zeros(g, index, axis=axis, shape=x_shape),
)
def gather(xp: Any, x: Any, index: Any, *, axis: int, sparse_grad: bool = False) -> Any:
    """x[i][index[i][j]] for axis 1, and so on.

    index: int64, as many dimensions as x, no longer but along `axis`.

    Result: shape of index, dtype of x. Errors: RuntimeError when an index or a shape is out of
    range.
    """
    axis = _check("gather", x.shape, index, axis)
    if index.size == 0:
        return xp.zeros(index.shape, x.dtype)
    shape, at = _lift(x.shape, index)
    return xp.take(x.reshape(-1), _flat(xp, shape, at, axis)).reshape(index.shape)


@op(
    torch=None, linear=True, index=None, x=lambda xp, g, index, axis: xp.gather(g, index, axis=axis)
)
def scatter_zeros(
    xp: Any, x: Any, index: Any, *, axis: int, shape: Any, unique: bool = False
) -> Any:
    """Zeros with x added at `index` along `axis`: the transpose of gather.

    x, index: one shape. Result: `shape`.
    """
    shape = tuple(shape)
    result = xp.zeros(shape or (1,), x.dtype)
    if index.size:
        lifted, at = _lift(shape, index)
        flat = _flat(xp, lifted, at, axis % len(lifted)).ravel()
        if unique:
            result.reshape(-1)[flat] = x.ravel()
        else:
            accumulate_at(xp, result.reshape(-1), flat, x.ravel())
    return result.reshape(shape)


def _scattered(xp: Any, x: Any, index: Any, src: Any, axis: int, add: bool) -> Any:
    axis = _check("scatter", x.shape, index, axis)
    result = xp.array(x, order="C", copy=True)
    if index.size:
        shape, at = _lift(x.shape, index)
        flat = _flat(xp, shape, at, axis).ravel()
        if add:
            accumulate_at(xp, result.reshape(-1), flat, src.ravel())
        else:
            result.reshape(-1)[flat] = src.ravel() if src.ndim else src
    return result


@op(
    torch=None,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis: xp.scatter_value(g, index, axis=axis, value=0),
    src=lambda xp, g, index, axis, src_shape: xp.gather_padded(
        g, index, axis=axis, shape=src_shape
    ),
)
def scatter(xp: Any, x: Any, index: Any, src: Any, *, axis: int) -> Any:
    """x with src written at `index` along `axis`.

    index: int64; src: at least as long, dtype of x. Result: as x.

    Errors: RuntimeError when dtypes differ or an index or a shape is out of range.
    """
    _refuse_dtypes("scatter", x, src)
    return _scattered(xp, x, index, _sources(xp, src, index), axis, add=False)


@op(
    torch=None,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis: xp.scatter_value(g, index, axis=axis, value=0),
)
def scatter_value(xp: Any, x: Any, index: Any, *, axis: int, value: Any) -> Any:
    """x with a number written at `index` along `axis`.

    index: int64. Result: shape and dtype of x.
    """
    return _scattered(xp, x, index, xp.asarray(element(value, x.dtype)), axis, add=False)


@op(
    torch="scatter_add(input, dim, index, src)",
    inplace=True,
    linear=True,
    index=None,
    x=lambda xp, g: g,
    src=lambda xp, g, index, axis, src_shape: xp.gather_padded(
        g, index, axis=axis, shape=src_shape
    ),
)
def scatter_add(xp: Any, x: Any, index: Any, src: Any, *, axis: int) -> Any:
    """x with src added at `index` along `axis`.

    index: int64; src: at least as long, dtype of x. Result: as x.

    Errors: RuntimeError when dtypes differ or an index or a shape is out of range.
    """
    _refuse_dtypes("scatter_add", x, src)
    return _scattered(xp, x, index, _sources(xp, src, index), axis, add=True)


def _refuse_dtypes(name: str, x: Any, src: Any) -> None:
    if x.dtype != src.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, found {x.dtype.name} and "
            f"{src.dtype.name}"
        )


@op(
    torch=None,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis, x_shape: xp.scatter_corner(g, index, axis=axis, shape=x_shape),
)
def gather_padded(xp: Any, x: Any, index: Any, *, axis: int, shape: Any) -> Any:
    """gather, in the corner of zeros: the gradient of a scatter's source.

    Result: `shape`, dtype of x.
    """
    found = gather(xp, x, index, axis=axis)
    if found.shape == tuple(shape):
        return found
    result = xp.zeros(tuple(shape), x.dtype)
    if index.size:
        result[tuple(slice(0, n) for n in index.shape)] = found
    return result


@op(
    torch=None,
    linear=True,
    index=None,
    x=lambda xp, g, index, axis, x_shape: xp.gather_padded(g, index, axis=axis, shape=x_shape),
)
def scatter_corner(xp: Any, x: Any, index: Any, *, axis: int, shape: Any) -> Any:
    """Zeros with the corner of x added at `index`: the transpose of gather_padded.

    Result: `shape`, dtype of x.
    """
    return scatter_zeros(xp, _sources(xp, x, index), index, axis=axis, shape=shape)
