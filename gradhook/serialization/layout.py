"""Where a tensor's elements lie in the memory that it shares with others: what files keep of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradhook import backend
from gradhook.serialization.errors import LoadError, shown

MOST = 1 << 62  # no array is larger, whatever its strides
MOST_DIMS = 64  # NumPy's


class Place(NamedTuple):
    """A tensor's place: the flat array that owns the memory; offset, size and stride in elements.
    owner: the array object whose identity is the memory's.
    """

    owner: Any
    flat: Any
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def owner_of(array: Any) -> Any:
    """The array of the same dtype that owns the memory of a view, the array itself if none does."""
    owner, base = array, getattr(array, "base", None)
    while base is not None:
        if type(base) is type(array) and base.dtype == array.dtype:
            owner = base
        base = getattr(base, "base", None)
    return owner


def _flat(array: Any) -> Any | None:
    """All elements of a dense array in the order of memory, as a view; None for one with gaps."""
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    dense = array.transpose(order)
    return dense.reshape(-1) if dense.flags.c_contiguous else None


def place_of(array: Any) -> Place:
    """The place of an array (NumPy or CuPy, native byte order). One whose memory is not dense, or
    that runs backward, gets a contiguous copy of its own.
    """
    owner = owner_of(array)
    item = array.itemsize
    flat = _flat(owner)
    if flat is not None and all(s >= 0 and s % item == 0 for s in array.strides):
        offset = backend.address(array) - backend.address(flat)
        if array.size == 0:
            offset = 0
        if 0 <= offset <= flat.nbytes and offset % item == 0:
            return Place(owner, flat, offset // item, array.shape, _steps(array))
    module = backend.array_module(array)
    with backend.place(array):
        own = module.ascontiguousarray(array).reshape(array.shape)
    return Place(array, own.reshape(-1), 0, own.shape, _steps(own))


def _steps(array: Any) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)


def view_of(flat: Any, offset: Any, size: Any, stride: Any) -> Any:
    """The array of a place in a flat array, over its memory. Errors: LoadError for what is no
    place, or not within the memory.
    """
    shape = checked_sizes(size, "size")
    steps = checked_sizes(stride, "stride")
    start = checked_sizes((offset,), "storage offset")[0]
    if len(shape) != len(steps):
        raise LoadError(f"a tensor has {len(shape)} sizes and {len(steps)} strides")
    numel = 1
    for n in shape:
        numel *= max(n, 1)
    if numel * flat.itemsize >= MOST:
        raise LoadError(f"a tensor of size {shape} is larger than any memory")
    if 0 in shape:
        return flat[:0].reshape(shape)
    end = start + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) + 1
    if end > flat.size:
        raise LoadError(
            f"a tensor of size {shape}, stride {steps} and storage offset {start} needs {end} "
            f"elements, its storage has {flat.size}"
        )
    order = sorted(range(len(shape)), key=lambda d: -steps[d])
    sizes = [shape[d] for d in order]
    if [steps[d] for d in order] == _contiguous(sizes):
        dense = flat[start : start + numel].reshape(sizes)  # knows its owner, on CuPy too
        return dense.transpose([order.index(d) for d in range(len(shape))])
    with backend.place(flat):
        strided: Any = backend.array_module(flat).lib.stride_tricks.as_strided
        return strided(flat[start:], shape, tuple(s * flat.itemsize for s in steps))


def _contiguous(shape: list[int]) -> list[int]:
    steps, step = [], 1
    for n in reversed(shape):
        steps.append(step)
        step *= n
    return steps[::-1]


def checked_sizes(value: Any, what: str) -> tuple[int, ...]:
    """A tuple of sizes from a file. Errors: LoadError unless all are ints from 0 that fit."""
    if not isinstance(value, tuple | list) or len(value) > MOST_DIMS:
        raise LoadError(f"a tensor's {what} is {shown(value)}, expected at most 64 ints")
    for n in value:
        if type(n) is not int or not 0 <= n < MOST // 16:
            raise LoadError(f"a tensor's {what} has {shown(n)} in it, expected ints from 0")
    return tuple(value)
