"""Selecting and scattering elements: masked_select, nonzero, take, scatter, index_put, slices put
back.
"""

from __future__ import annotations

from typing import Any

from gradhook import dtypes, indexing
from gradhook.ops.axes import broadcast, wrap
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = tuple(
    """
    masked_select nonzero argwhere take take_along_dim scatter index_put index_fill
    masked_scatter select_scatter slice_scatter diagonal_scatter scatter_reduce
""".split()
)
METHODS = tuple(
    """
    masked_select nonzero argwhere take take_along_dim scatter index_put index_fill
    masked_scatter select_scatter slice_scatter diagonal_scatter scatter_reduce __getitem__
    __setitem__
""".split()
)
PROPERTIES: tuple[str, ...] = ()

__getitem__ = indexing.getitem
__setitem__ = indexing.setitem


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where mask holds, in order.

    mask: bool; shapes broadcast. Result: one dimension, a copy.
    Errors: RuntimeError for a mask that is not bool.
    """
    if mask._a.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast(tuple(input.shape), tuple(mask.shape))
    x, m = ops.expand(input, size=shape), ops.expand(mask, size=shape)
    if not shape:
        x, m = ops.reshape(x, shape=(1,)), ops.reshape(m, shape=(1,))
    return ops.take_index(x, index=(m._a.copy(),))


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The coordinates of nonzero elements: (count, ndim) int64, or one tensor a dimension with
    as_tuple.
    """
    if not as_tuple:
        return ops.nonzero(input)
    return multi.unbind(
        ops.nonzero(input if input.ndim else ops.reshape(input, shape=(1,))), axis=1
    )


def argwhere(input: Tensor) -> Tensor:
    """The coordinates of nonzero elements: (count, ndim) int64."""
    return ops.nonzero(input)


def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened input at index.

    index: int64. Result: shape of index. Errors: IndexError.
    """
    if index._a.dtype.kind not in "iu":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.title}")
    flat = ops.reshape(input, shape=(-1,))
    if index.numel() and not flat.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    return ops.take_index(flat, index=(index._a.copy(),))


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather with broadcasting of the other dimensions; of the flattened tensors without dim.

    Dtype of input.
    Errors: RuntimeError for indices that are not int64 or have another number of dimensions.
    """
    if indices._a.dtype.kind not in "iu":
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.title}"
        )
    if dim is None:
        return ops.gather(
            ops.reshape(input, shape=(-1,)), ops.reshape(indices, shape=(-1,)), axis=0
        )
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    axis = wrap(dim, input.ndim)
    indices = ops.where(ops.less(indices, 0), ops.add(indices, input.shape[axis]), indices)
    rest = broadcast(
        *[(*s[:axis], 1, *s[axis + 1 :]) for s in (tuple(input.shape), tuple(indices.shape))]
    )
    x = ops.expand(input, size=(*rest[:axis], input.shape[axis], *rest[axis + 1 :]))
    i = ops.expand(indices, size=(*rest[:axis], indices.shape[axis], *rest[axis + 1 :]))
    return ops.gather(x, i, axis=axis)


def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """input with src (a tensor or a number) written at index along dim.

    reduce: "add" or "multiply".

    index: int64. Result: as input. Errors: RuntimeError when dtypes differ or an index is out of
    range.
    """
    src = value if src is None else src
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        if not isinstance(src, Tensor):
            src = ops.fill(ops.cast(index, dtype=input.dtype), value=src)
        return scatter_reduce(input, dim, index, src, "sum" if reduce == "add" else "prod")
    if isinstance(src, Tensor):
        return ops.scatter(input, index, src, axis=dim)
    return ops.scatter_value(input, index, axis=dim, value=src)


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """input with src reduced into it at index along dim: "sum", "prod", "mean", "amax" or "amin".

    Result: as input.

    include_self: whether the elements of input take part where something is written.
    Dtypes must agree.
    """
    return ops.scatter_reduce(input, index, src, axis=dim, reduce=reduce, include_self=include_self)


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """input with values at [indices]: a tuple of index tensors.

    Result: as input. Errors: RuntimeError, IndexError. Dtypes must agree.
    """
    return ops.index_put(
        input, values, index=indexing.advanced(input, tuple(indices)), accumulate=accumulate
    )


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """input with a number (or 0-d tensor) at its slices at index along dim. Result: as input.

    Dtype of input.
    """
    if isinstance(value, Tensor):
        return ops.masked_fill_tensor(input, filled_mask(input, dim, index, value), value)
    return ops.index_fill(input, index, axis=dim, value=value)


def filled_mask(input: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    """Where index_fill writes. Result: shape of input, bool. Errors: RuntimeError unless 0-d."""
    if value.ndim:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    nowhere = ops.fill(ops.cast(input.detach(), dtype=dtypes.bool_), value=False)
    return ops.index_fill(nowhere, index, axis=dim, value=True)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """input with the elements of source, in order, where mask holds.

    Result: the broadcast shape, dtype of input.
    Errors: RuntimeError for a mask that is not bool, other dtypes, and too few elements.
    """
    if mask._a.dtype.kind != "b":
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype!r}"
        )
    if input._a.dtype != source._a.dtype:
        raise RuntimeError(
            "masked_scatter_: expected self and source to have same dtypes but got "
            f"{input.dtype.title} and {source.dtype.title}"
        )
    shape = broadcast(tuple(input.shape), tuple(mask.shape))
    m = ops.expand(mask, size=shape)._a.copy()
    count = int(m.sum())
    if source.numel() < count:
        raise RuntimeError(
            "masked_scatter: expected self to have source elements, number of elements of source < "
            "number of ones in mask"
        )
    flat = ops.slice_view(ops.reshape(source, shape=(-1,)), index=(slice(0, count),))
    x = ops.expand(input, size=shape)
    if not shape:
        x, m = ops.reshape(x, shape=(1,)), m.reshape(1)
    return ops.reshape(ops.index_put(x, flat, index=(m,)), shape=shape)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """input with src as its slice `index` along dim. Result: as input, a copy.

    Dtypes must agree.
    """
    axis = wrap(dim, input.ndim)
    at = (*(slice(None),) * axis, index, Ellipsis)
    return _embedded(input, src, at)


def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """input with src as its slices start:end:step along dim. Result: as input, a copy.

    Dtypes must agree.
    """
    return _embedded(input, src, (*(slice(None),) * wrap(dim, input.ndim), slice(start, end, step)))


def _embedded(input: Tensor, src: Tensor, at: tuple[Any, ...]) -> Tensor:
    found = tuple(input._a[at].shape)
    if found != tuple(src.shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = "
            f"{list(found)}"
        )
    return ops.index_put(input, src, index=at)


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """input with src on the diagonal of two dimensions. Result: as input, a copy.

    Dtypes must agree.
    """
    ones = ops.ones_like(src.detach())
    mask = ops.undiagonal(ones, shape=tuple(input.shape), offset=offset, dim1=dim1, dim2=dim2)
    placed = ops.undiagonal(src, shape=tuple(input.shape), offset=offset, dim1=dim1, dim2=dim2)
    return ops.where(ops.not_equal(mask, 0), ops.cast(placed, dtype=input.dtype), input)
