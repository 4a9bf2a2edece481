"""Arranging tensors beside each other: atleast_2d, broadcast_tensors, meshgrid, rot90, index grids,
isin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.ops.axes import broadcast, wrap
from gradhook.overloads.recorded import ops, tensor_of
from gradhook.size import Size
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = tuple(
    """
    atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_shapes rot90 fliplr flipud
    meshgrid tril_indices triu_indices isin
""".split()
)
METHODS = ("rot90", "fliplr", "flipud")
PROPERTIES: tuple[str, ...] = ()


def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Each tensor with at least 1 dimension. Any dtype; views where a tensor has them already."""
    return _each(tensors, lambda x: x if x.ndim else ops.reshape(x, shape=(1,)))


def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Each tensor with at least 2 dimensions, new ones first.

    Any dtype; views where a tensor has them already.
    """
    return _each(tensors, lambda x: x if x.ndim > 1 else ops.reshape(x, shape=(1, x.numel())))


def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Each tensor with at least 3 dimensions; a vector goes to the middle one.

    Any dtype; views where a tensor has them already.
    """

    def lift(x: Tensor) -> Tensor:
        if x.ndim > 2:
            return x
        return ops.reshape(x, shape=(1, x.numel(), 1) if x.ndim < 2 else (*x.shape, 1))

    return _each(tensors, lift)


def _each(tensors: tuple[Any, ...], function: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    found = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(t) for t in found)


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that these shapes broadcast to. Errors: RuntimeError when they do not.

    Shapes are ints; no dtype takes part.
    """
    return Size(broadcast(*[(s,) if isinstance(s, int) else tuple(s) for s in shapes]))


def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Each tensor as a view of the shape they broadcast to. Dtypes stay."""
    found: tuple[Any, ...] = tensors
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        found = tuple(tensors[0])
    shape = broadcast(*[tuple(t.shape) for t in found])
    return tuple(ops.expand(t, size=shape) for t in found)


def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The plane of two dimensions turned by k quarter turns.

    Any dtype.

    Errors: RuntimeError for other dims.
    """
    if len(dims) != 2 or input.ndim < 2 or wrap(dims[0], input.ndim) == wrap(dims[1], input.ndim):
        raise RuntimeError(
            f"expected total rotation dims == 2 and different ones, but got dims = {list(dims)}"
        )
    a, b = (wrap(d, input.ndim) for d in dims)
    if k % 4 == 2:
        return ops.flip(input, dims=(a, b))
    if k % 4 == 1:
        return ops.clone(ops.transpose(ops.flip(input, dims=(b,)), dim0=a, dim1=b))
    if k % 4 == 3:
        return ops.flip(ops.transpose(input, dim0=a, dim1=b), dims=(b,))
    return ops.clone(input)


def fliplr(input: Tensor) -> Tensor:
    """The second dimension in reverse. Errors: RuntimeError below 2 dimensions. Any dtype."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return ops.flip(input, dims=(1,))


def flipud(input: Tensor) -> Tensor:
    """The first dimension in reverse. Errors: RuntimeError for 0 dimensions. Any dtype."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return ops.flip(input, dims=(0,))


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinate grids of vectors, views.

    indexing: "ij" or "xy". Errors: RuntimeError for others. Dtypes stay.
    """
    given: tuple[Any, ...] = tensors
    one = len(given) == 1 and not isinstance(given[0], Tensor)
    found: list[Tensor] = list(given[0]) if one else list(given)
    if not found:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(t.ndim > 1 for t in found):
        raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    if any(t.dtype != found[0].dtype for t in found):
        raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    n = len(found)
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    shape = [0] * n
    for t, place in zip(found, places, strict=True):
        shape[place] = t.numel()
    lifted = [
        ops.reshape(t, shape=tuple(t.numel() if k == place else 1 for k in range(n)))
        for t, place in zip(found, places, strict=True)
    ]
    return tuple(ops.broadcast_to(t, shape=tuple(shape)) for t in lifted)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = dtypes.int64,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Rows and columns of the elements on and below a diagonal. Result: (2, count).

    int64 where no dtype is given.
    """
    return _indices(np.tril_indices(row, offset, col), dtype, device)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = dtypes.int64,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Rows and columns of the elements on and above a diagonal. Result: (2, count).

    int64 where no dtype is given.
    """
    return _indices(np.triu_indices(row, offset, col), dtype, device)


def _indices(found: Any, dtype: Any, device: Any) -> Tensor:
    host = np.stack(found).astype(dtypes.raw(dtype) or np.int64)
    return tensor_of(backend.to_device(host, device or backend.device("cpu")))


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is one of test_elements (tensors or one number).

    Result: shape of elements, bool.
    """
    given = [x._a if isinstance(x, Tensor) else np.asarray(x) for x in (elements, test_elements)]
    xp = backend.array_module(given[0] if isinstance(elements, Tensor) else given[1])
    return tensor_of(xp.asarray(xp.isin(*given, invert=invert)))
