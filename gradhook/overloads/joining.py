"""cat, stack and their kin over lists of tensors; split, chunk, tensor_split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gradhook.ops.axes import wrap
from gradhook.overloads.arrange import atleast_1d, atleast_2d, atleast_3d
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = tuple(
    """
    cat concat concatenate stack hstack vstack row_stack dstack column_stack split
    split_with_sizes chunk tensor_split hsplit vsplit dsplit block_diag
""".split()
)
METHODS = ("split", "split_with_sizes", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit")
PROPERTIES: tuple[str, ...] = ()

Tensors = Sequence[Tensor]


def _listed(name: str, tensors: Any) -> Tensors:
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        kind = ValueError if name == "cat" else RuntimeError
        raise kind(f"torch.{name}(): expected a non-empty list of Tensors")
    return tensors


def cat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Tensors joined along dim.

    tensors: shapes that agree but for dim; (0,) ones are left out. Result: promoted.
    """
    return ops.concat(*_listed("cat", tensors), axis=dim if axis is None else axis)


concat = concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension. Errors: RuntimeError when the shapes differ.

    The promoted dtype.
    """
    return ops.stack(*_listed("stack", tensors), axis=dim)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the second dimension (the first of vectors). The promoted dtype."""
    lifted = [atleast_1d(t) for t in _listed("hstack", tensors)]
    return ops.concat(*lifted, axis=0 if lifted[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the first dimension, vectors as rows. The promoted dtype."""
    return ops.concat(*(atleast_2d(t) for t in _listed("vstack", tensors)), axis=0)


row_stack = vstack


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the third dimension. The promoted dtype."""
    return ops.concat(*(atleast_3d(t) for t in _listed("dstack", tensors)), axis=2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Vectors as columns and matrices joined along the second dimension. The promoted dtype."""
    lifted = [
        t if t.ndim > 1 else ops.reshape(t, shape=(t.numel(), 1))
        for t in _listed("column_stack", tensors)
    ]
    return ops.concat(*lifted, axis=1)


def split(
    tensor: Tensor, split_size_or_sections: Any, dim: int = 0, **names: Any
) -> tuple[Tensor, ...]:
    """Pieces along dim of one size (the last may be shorter) or of the sizes given, views.

    Dtype of input.

    Errors: RuntimeError when the sizes do not fit.
    """
    if isinstance(split_size_or_sections, list | tuple):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    size = int(split_size_or_sections)
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    axis = wrap(dim, tensor.ndim)
    n = tensor.shape[axis]
    if size < 0 or (size == 0 and n):
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if n == 0 or size == 0:
        return multi.split(tensor, sizes=(n,), axis=axis)
    sizes = (size,) * (n // size) + ((n % size,) if n % size else ())
    return multi.split(tensor, sizes=sizes, axis=axis)


def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of the sizes given, views.

    Dtype of input.

    Errors: RuntimeError when they do not sum to the dimension.
    """
    sizes = tuple(int(n) for n in split_sizes)
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(sizes)}"
        )
    return multi.split(input, sizes=sizes, axis=dim)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces along dim, of one size (the last may be shorter), views.

    Dtype of input.

    Errors: RuntimeError below 1 chunk.
    """
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = wrap(dim, input.ndim)
    n = input.shape[axis]
    if n == 0:
        return multi.split(input, sizes=(0,) * chunks, axis=axis)
    return split(input, -(-n // chunks), axis)


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, **names: Any
) -> tuple[Tensor, ...]:
    """Pieces along dim that differ in size by at most one, or begin at the indices given, views.

    Dtype of input. Errors: RuntimeError for 0 dimensions and fewer than 1 piece.
    """
    given = indices_or_sections
    if given is None:
        given = names.get("sections", names.get("indices", names.get("tensor_indices_or_sections")))
    if input.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    axis = wrap(dim, input.ndim)
    n = input.shape[axis]
    if isinstance(given, Tensor):
        given = given.tolist()
    if isinstance(given, int):
        if given <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {given}")
        sizes = [n // given + (k < n % given) for k in range(given)]
        return multi.split(input, sizes=tuple(sizes), axis=axis)
    lead = (slice(None),) * axis
    edges = [0, *(int(k) for k in given), n]
    return tuple(
        ops.slice_view(input, index=(*lead, slice(a, b if k < len(edges) - 2 else None)))
        for k, (a, b) in enumerate(pairwise(edges))
    )


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along the second dimension (the first of a vector). Sections must divide it.

    Dtype of input. Errors: RuntimeError for 0 dimensions.
    """
    if input.ndim < 1:
        raise RuntimeError(
            "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 "
            "dimensions!"
        )
    return _even("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along the first dimension. Sections must divide it. Dtype of input.

    Errors: RuntimeError below 2 dimensions.
    """
    if input.ndim < 2:
        raise RuntimeError(
            "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with "
            f"{input.ndim} dimensions!"
        )
    return _even("vsplit", input, indices_or_sections, 0)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along the third dimension. Sections must divide it. Dtype of input.

    Errors: RuntimeError below 3 dimensions.
    """
    if input.ndim < 3:
        raise RuntimeError(
            "torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with "
            f"{input.ndim} dimensions!"
        )
    return _even("dsplit", input, indices_or_sections, 2)


def _even(name: str, input: Tensor, given: Any, axis: int) -> tuple[Tensor, ...]:
    if not isinstance(given, (int, tuple, list, Tensor)):
        raise TypeError(
            f"{name}(): expected an int or a tuple of ints, found {type(given).__name__}"
        )
    if isinstance(given, int) and (given <= 0 or input.shape[axis] % given):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {axis}, but the size of the "
            "dimension "
            f"{input.shape[axis]} is not divisible by the split_size {given}!"
        )
    return tensor_split(input, given, axis)


def block_diag(*tensors: Tensor) -> Tensor:
    """The matrix with matrices (vectors as rows) along its diagonal, zeros elsewhere.

    Result: 2-d, the promoted dtype.
    """
    blocks = [atleast_2d(t) for t in tensors]
    rows, columns = sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)
    placed, r, c = [], 0, 0
    for b in blocks:
        here = (slice(r, r + b.shape[0]), slice(c, c + b.shape[1]))
        placed.append(ops.unslice(b, index=here, shape=(rows, columns)))
        r, c = r + b.shape[0], c + b.shape[1]
    total = placed[0]
    for p in placed[1:]:
        total = ops.add(total, p)
    return total
