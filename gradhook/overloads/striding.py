"""as_strided and as_strided_scatter: views of a tensor's memory by sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradhook import backend
from gradhook.ops.strided import places
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = ("as_strided", "as_strided_copy", "as_strided_scatter")
METHODS = ("as_strided", "as_strided_scatter")
PROPERTIES: tuple[str, ...] = ()


def _geometry(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> dict[str, Any]:
    """The attributes of `strided`. Errors: RuntimeError for what is outside the memory."""
    shape, steps = tuple(int(n) for n in size), tuple(int(s) for s in stride)
    if len(shape) != len(steps):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(steps)}, {len(shape)}")
    if any(s < 0 for s in steps):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(steps)}"
        )
    if any(n < 0 for n in shape):
        raise RuntimeError(f"as_strided: negative size in {list(shape)}")
    root = input
    while root._view is not None:
        root = root._view.base
    array, whole = input._a, root._a
    own = tuple(s // array.itemsize for s in array.strides)
    if any(s < 0 for s in (*own, *whole.strides)):
        raise RuntimeError("as_strided: the tensor's memory is laid out backward; clone() it first")
    here = (backend.address(array) - backend.address(whole)) // array.itemsize
    offset = here if storage_offset is None else int(storage_offset)
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    room = _span(tuple(whole.shape), tuple(s // whole.itemsize for s in whole.strides))
    room = room * whole.itemsize // array.itemsize
    if offset + _span(shape, steps) > room and 0 not in shape:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {offset} need "
            f"{offset + _span(shape, steps)} elements, out of bounds for storage of {room}"
        )
    return {"size": shape, "stride": steps, "delta": offset - here, "x_stride": own}


def _span(shape: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """How many elements from the first to the last."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view by sizes and strides (in elements) over the memory of input's base.

    storage_offset: where in the base it begins, where input does without. A gradient goes to what
    input shows of it; the rest of the base gets none. Errors: RuntimeError out of bounds and for
    negative strides. Dtype of input.
    """
    return ops.strided(input, **_geometry(input, size, stride, storage_offset))


def as_strided_copy(
    input: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """as_strided, copied. Result: shape `size`, dtype of input."""
    return ops.clone(as_strided(input, size, stride, storage_offset))


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """input with src written where as_strided would read, a copy.

    Dtype of input.

    Errors: as as_strided, and RuntimeError when src has another shape than `size`.
    """
    if tuple(src.shape) != tuple(size):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)},"
            f" slice size = {list(size)}"
        )
    g = _geometry(input, size, stride, storage_offset)
    xp = backend.array_module(input._a)
    with backend.place(input._a):
        at = places(xp, g["size"], g["stride"], g["delta"]).reshape(-1)
        if not input.is_contiguous():  # from places in memory to places in order
            own = places(xp, tuple(input.shape), g["x_stride"], 0)
            order = xp.full(int(max(own.max(), at.max())) + 1, -1, "i8")
            order[own.reshape(-1)] = xp.arange(own.size)
            at = xp.where(at < 0, -1, order[at])
    flat, values = ops.reshape(input, shape=(-1,)), ops.reshape(src, shape=(-1,))
    if not input.is_contiguous():  # what lies between the elements of input is lost
        values, at = ops.take_index(values, index=(at >= 0,)), at[at >= 0]
    elif at.size and not 0 <= int(at.min()) <= int(at.max()) < input.numel():
        raise RuntimeError("as_strided_scatter: it would write outside of input")
    return ops.reshape(ops.index_put(flat, values, index=(at,)), shape=tuple(input.shape))
