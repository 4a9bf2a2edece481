"""The `<view>_copy` functions, which copy what the view function shows; chunks and splits without
view tracking; combinations of elements; constant_pad_nd, fill and put.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations as host_combinations
from itertools import combinations_with_replacement as host_combinations_with_replacement
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.ops.table import TABLE
from gradhook.overloads import joining, shape
from gradhook.overloads.arrange import meshgrid
from gradhook.overloads.recorded import multi, ops, tensor_of, write
from gradhook.tensor import Tensor

# name of the view function -> what makes the view
_VIEWS: dict[str, Callable[..., Any]] = {
    "alias": lambda input: input,
    "detach": lambda input: input.detach(),
    "diagonal": lambda input, offset=0, dim1=0, dim2=1: ops.diagonal(
        input, offset=offset, dim1=dim1, dim2=dim2
    ),
    "expand": lambda input, size, *, implicit=False: shape.expand(input, size),
    "narrow": lambda input, dim, start, length: shape.narrow(input, dim, start, length),
    "permute": lambda input, dims: shape.permute(input, dims),
    "select": lambda input, dim, index: shape.select(input, dim, index),
    "slice": lambda input, dim=0, start=None, end=None, step=1: ops.slice_view(
        input, index=(*(slice(None),) * (dim % max(input.ndim, 1)), slice(start, end, step))
    ),
    "split": lambda input, split_size, dim=0: joining.split(input, split_size, dim),
    "split_with_sizes": lambda input, split_sizes, dim=0: joining.split_with_sizes(
        input, split_sizes, dim
    ),
    "squeeze": lambda input, dim=None: ops.squeeze(input, axis=dim),
    "t": lambda input: ops.t(input),
    "transpose": lambda input, dim0, dim1: ops.transpose(input, dim0=dim0, dim1=dim1),
    "unbind": lambda input, dim=0: multi.unbind(input, axis=dim),
    "unfold": lambda input, dimension, size, step: shape.unfold(input, dimension, size, step),
    "unsqueeze": lambda input, dim: ops.expand_dims(input, axis=dim),
    "view": lambda input, size: shape.view(input, size),
}
_COPIES = tuple(f"{name}_copy" for name in _VIEWS)

RENAMED: dict[str, str] = {}
FUNCTIONS = (
    *_COPIES,
    *"""
    unsafe_chunk unsafe_split unsafe_split_with_sizes combinations cartesian_prod constant_pad_nd
    fill put index_reduce
""".split(),
)
METHODS = tuple(
    """
    narrow_copy unsafe_chunk unsafe_split unsafe_split_with_sizes put index_reduce
""".split()
)
PROPERTIES: tuple[str, ...] = ()


def _copied(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        found = view(*args, **named)
        if isinstance(found, Tensor):
            return ops.clone(found)
        return tuple(ops.clone(t) for t in found)

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"{name} of input, copied: parameters, shape, dtype and errors as there."
    view.__annotations__ = {"input": "Tensor"}
    function.__wrapped__ = view  # type: ignore[attr-defined]
    return function


for _name, _view in _VIEWS.items():
    globals()[f"{_name}_copy"] = _copied(_name, _view)

unsafe_chunk = joining.chunk
unsafe_split = joining.split
unsafe_split_with_sizes = joining.split_with_sizes


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector in order, (count, r).

    Dtype of input.

    Errors: RuntimeError for other shapes and negative r.
    """
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return ops.slice_view(input, index=(slice(0, 0),))
    chosen = host_combinations_with_replacement if with_replacement else host_combinations
    places = np.array(list(chosen(range(input.shape[0]), r)), np.int64).reshape(-1)
    index = tensor_of(backend.to_device(places, input.device))
    return ops.reshape(ops.index_select(input, index, axis=0), shape=(len(places) // r, r))


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of one element of each vector, (count, number of vectors); one vector as it is.

    Errors: RuntimeError for other shapes and dtypes that differ.
    """
    for t in tensors:
        if t.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack(*(ops.reshape(g, shape=(-1,)) for g in meshgrid(*tensors)), axis=1)


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """input with elements of value around: pad[0], pad[1] before and after the last dimension,
    pad[2], pad[3] the one before, ... Negative numbers crop. Errors: RuntimeError. Dtype of input.
    """
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. "
            f"Pad length is {len(pad)} while the input has {input.ndim} dimensions."
        )
    for k in range(len(pad) // 2):
        n = input.shape[input.ndim - 1 - k]
        if n + min(pad[2 * k], 0) + min(pad[2 * k + 1], 0) < 0:
            raise RuntimeError(
                f"constant_pad_nd: pad ({pad[2 * k]}, {pad[2 * k + 1]}) crops more than the "
                f"{n} elements of dimension {input.ndim - 1 - k}"
            )
    return ops.pad_constant(input, pad=tuple(int(n) for n in pad), value=value)


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like input with every element value: a number or a 0-d tensor.

    Dtype of input.

    Errors: RuntimeError for a tensor of more dimensions.
    """
    if not isinstance(value, Tensor):
        return ops.fill(input, value=value)
    if value.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
            "dimensions."
        )
    return ops.copy(input, value)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """input with the elements of source at positions of the flattened input.

    accumulate: they are added there. index: int64, as many as source. Result: as input.
    Result: as input.
    Errors: RuntimeError, IndexError.
    """
    if index._a.dtype.kind not in "iu":
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype.title}")
    if input._a.dtype != source._a.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{input.dtype.title} and source.dtype = {source.dtype.title}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    flat, values = ops.reshape(input, shape=(-1,)), ops.reshape(source, shape=(-1,))
    at = (index._a.reshape(-1).copy(),)
    done = ops.index_put(flat, values, index=at, accumulate=accumulate)
    return ops.reshape(done, shape=tuple(input.shape))


def _index_reduced(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str
) -> tuple[int, Tensor]:
    """The axis and the index in the shape of source. Errors: as PyTorch's index_reduce_."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    axis = dim % max(self.ndim, 1)
    if index.ndim > 1:
        raise IndexError(
            f"index_reduce_(): Index is supposed to be a vector, but got dim: {index.ndim}"
        )
    if index._a.dtype.kind not in "iu":
        raise RuntimeError(
            f"index_reduce_(): Expected dtype int32/int64 for index but got: {index.dtype.title}"
        )
    if self._a.dtype != source._a.dtype:
        raise RuntimeError(
            f"index_reduce_(): self ({self.dtype.title}) and source ({source.dtype.title}) must "
            "have the same scalar type"
        )
    n = source.shape[axis] if source.ndim else 1
    if index.numel() != n:
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index.numel()}) should be equal to "
            f"source.size(dim): ({n}), for dim: {dim}"
        )
    mine, theirs = tuple(self.shape), tuple(source.shape)
    if (*mine[:axis], *mine[axis + 1 :]) != (*theirs[:axis], *theirs[axis + 1 :]):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(mine)} source.shape = {list(theirs)}"
        )
    if not theirs:
        return 0, ops.reshape(index, shape=())
    lifted = ops.reshape(index, shape=(n, *(1,) * (source.ndim - 1 - axis)))
    return axis, ops.expand(lifted, size=theirs)


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """input with the slices of source reduced into its slices at index along dim.

    index: (n,) int; source: as input, dim n long; reduce: "prod", "mean", "amax" or "amin".
    include_self: whether the elements of input take part. Result: as input. Dtype of input.
    Errors: RuntimeError, IndexError.
    """
    axis, at = _index_reduced(input, dim, index, source, reduce)
    return ops.scatter_reduce(
        input, at, source, axis=axis, reduce=reduce, include_self=include_self
    )


def index_reduce_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """index_reduce written into self."""
    axis, at = _index_reduced(self, dim, index, source, reduce)
    row = TABLE["scatter_reduce"]
    return write(row, self, at, source, axis=axis, reduce=reduce, include_self=include_self)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """The main diagonal of self becomes fill_value; with wrap that of a tall matrix goes on.

    self: a matrix, or more dimensions of one length. Errors: RuntimeError for other shapes.
    """
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    shape = tuple(self.shape)
    if self.ndim > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    step = sum(int(np.prod(shape[k + 1 :])) for k in range(self.ndim))
    stop = None if wrap else min(shape) * step
    xp = backend.array_module(self._a)
    with backend.place(self._a):
        mask = xp.zeros(self.numel(), bool)
        mask[:stop:step] = True
        mask = mask.reshape(shape)
    return write(TABLE["masked_fill"], self, tensor_of(mask), value=fill_value)


INPLACE: dict[str, Callable[..., Any]] = {
    "index_reduce_": index_reduce_,
    "fill_diagonal_": fill_diagonal_,
}
