"""`tensor[index]` and `tensor[index] = value`: PyTorch's index expressions, split into a view and
index arrays.

As in PyTorch (and unlike NumPy) ints, slices and None are applied first; the index tensors then
index the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook import backend, creation
from gradhook.autograd import record
from gradhook.autograd.binding import make
from gradhook.autograd.inplace import inplace
from gradhook.ops.table import TABLE
from gradhook.tensor import Tensor

ops: Any = record.ops
FULL = slice(None)


def getitem(tensor: Tensor, index: Any) -> Tensor:
    """tensor[index]: a view for ints, slices, None and Ellipsis, a copy with index tensors, lists
    or masks.

    Errors: IndexError out of range or for too many indices; TypeError for what is no index;
    ValueError for a step.
    """
    basic = _quick(tensor._a.shape, index)
    if basic is not None:
        found: Tensor = ops.slice_view(tensor, index=basic)
        return found
    if type(index) is Tensor and index._a.ndim and index._a.dtype.kind == "i":
        if type(index._a) is type(tensor._a) and tensor._a.ndim:
            return ops.take_index(tensor, index=(index._a.copy(),))  # type: ignore[no-any-return]
    basic, arrays = split(tensor, index)
    view: Tensor = ops.slice_view(tensor, index=basic)
    if arrays is None:
        return view
    taken: Tensor = ops.take_index(view, index=arrays)
    return taken


def _quick(shape: tuple[int, ...], index: Any) -> tuple[Any, ...] | None:
    """The canonical form of an int, a slice or a tuple of them; None for other and for bad ones."""
    items = index if type(index) is tuple else (index,)
    if len(items) > len(shape):
        return None
    whole = len(items) < len(shape)
    for item, n in zip(items, shape, strict=False):
        kind = type(item)
        if kind is int:
            if not -n <= item < n:
                return None
        elif kind is slice:
            whole = True
            for part in (item.start, item.stop):
                if part is not None and type(part) is not int:
                    return None
            if item.step is not None and (type(item.step) is not int or item.step <= 0):
                return None
        else:
            return None
    return items if whole else (*items, Ellipsis)


def setitem(tensor: Tensor, index: Any, value: Any) -> None:
    """tensor[index] = value, in place. value: a number, or a tensor that broadcasts; it is cast.

    Errors: as getitem; RuntimeError when the value does not fit, and PyTorch's for leaves and
    overlapping memory.
    """
    basic, arrays = split(tensor, index)
    target = (
        tensor
        if all(i is Ellipsis or i == FULL for i in basic)
        else ops.slice_view(tensor, index=basic)
    )
    if not isinstance(value, Tensor | bool | int | float | complex):
        dtype = None if isinstance(value, np.ndarray) else tensor.dtype
        value = creation.tensor(value, dtype=dtype, device=tensor.device)
    elif isinstance(value, Tensor) and value.device != tensor.device:
        value = value.to(tensor.device)
    if arrays is None:
        if isinstance(value, Tensor):
            inplace(TABLE["copy"], target, _trimmed(value, target.ndim))
        else:
            inplace(TABLE["fill"], target, value=value)
        return
    if not isinstance(value, Tensor):
        if len(arrays) == 1 and arrays[0].dtype.kind == "b":  # no mask is read from a device
            mask = make(arrays[0].reshape(arrays[0].shape + (1,) * (target.ndim - arrays[0].ndim)))
            inplace(TABLE["masked_fill"], target, mask, value=value)
            return
        value = ops.fill(_scalar_like(target), value=value)
    inplace(TABLE["index_put"], target, value, index=arrays)


def _scalar_like(target: Tensor) -> Tensor:
    made: Tensor = make(backend.array_module(target._a).zeros((), target._a.dtype))
    return made


def _trimmed(value: Tensor, ndim: int) -> Tensor:
    """value without leading dimensions of 1 beyond `ndim`."""
    extra = value.ndim - ndim
    if extra > 0 and all(n == 1 for n in value.shape[:extra]):
        value = ops.reshape(value, shape=tuple(value.shape[extra:]))
    return value


def split(tensor: Tensor, index: Any) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """The index as a basic one (ints, slices, None, Ellipsis) and index arrays for what that gives,
    or None.
    """
    items = _items(index)
    shape = tensor._a.shape
    used = sum(_dims(i) for i in items)
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    basic: list[Any] = []
    arrays: list[Any] = []
    at = 0
    for item in items:
        if item is Ellipsis:
            fill = len(shape) - used
            basic.append(Ellipsis if Ellipsis not in basic else FULL)
            arrays += [FULL] * fill
            at += fill
            used = len(shape)
        elif item is None:
            basic.append(None)
            arrays.append(FULL)
        elif isinstance(item, bool):
            basic.append(None)
            arrays.append(np.array([item]))
        elif isinstance(item, int):
            n = shape[at]
            if not -n <= item < n:
                raise IndexError(f"index {item} is out of bounds for dimension {at} with size {n}")
            basic.append(item)
            at += 1
        elif isinstance(item, slice):
            basic.append(_slice(item))
            arrays.append(FULL)
            at += 1
        else:
            for k in range(item.ndim if item.dtype.kind == "b" else 0):
                if item.shape[k] != shape[at + k]:
                    raise IndexError(
                        f"The shape of the mask {list(item.shape)} at index {k} does not match the "
                        "shape of the "
                        f"indexed tensor {list(shape)} at index {at + k}"
                    )
            n = _dims(item)
            basic += [FULL] * n
            arrays.append(item)
            at += n
    if all(isinstance(a, slice) for a in arrays):
        return tuple(basic), None
    return tuple(basic), _arrays(tensor, arrays)


def advanced(tensor: Tensor, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Index arrays of `index_put`: a tensor or None for each dimension."""
    found = [FULL if i is None else _item(i) for i in indices]
    if sum(_dims(i) for i in found) > tensor.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {tensor.ndim} (got {len(indices)})"
        )
    return _arrays(tensor, [np.asarray(i) if isinstance(i, int) else i for i in found])


def _arrays(tensor: Tensor, arrays: list[Any]) -> tuple[Any, ...]:
    """Index arrays on the tensor's device; several masks, or masks beside indices, become
    positions.
    """
    xp = backend.array_module(tensor._a)
    if xp is np and any(backend.is_cupy(a) for a in arrays):
        raise backend.DeviceError(
            "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
        )
    found = [a if isinstance(a, slice) else xp.asarray(a) for a in arrays]
    if sum(not isinstance(a, slice) for a in found) > 1:
        found = [
            p
            for a in found
            for p in (a.nonzero() if not isinstance(a, slice) and a.dtype.kind == "b" else (a,))
        ]
        shapes = [a.shape for a in found if not isinstance(a, slice)]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError as error:
            listed = ", ".join(str(list(s)) for s in shapes)
            raise IndexError(
                "shape mismatch: indexing tensors could not be broadcast together with shapes "
                f"{listed}"
            ) from error
    while found and isinstance(found[-1], slice):
        found.pop()
    return tuple(found)


def _slice(s: slice) -> slice:
    if s.step is not None and int(s.step) <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, step = (None if v is None else int(v) for v in (s.start, s.stop, s.step))
    return slice(start, stop, step)


def _dims(item: Any) -> int:
    """How many dimensions of the tensor an item of the index consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, int | slice):
        return 1
    return int(item.ndim) if item.dtype.kind == "b" else 1


def _items(index: Any) -> list[Any]:
    """The items of an index: bool, int, slice, None, Ellipsis, or raw index arrays (copies)."""
    if isinstance(index, tuple):
        return [_item(i) for i in index]
    if isinstance(index, list) and any(
        isinstance(i, slice | Tensor) or i is None or i is Ellipsis for i in index
    ):
        return [_item(i) for i in index]
    return [_item(index)]


def _item(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice | bool | int):
        return item
    if isinstance(item, Tensor):
        array = item._a
        if array.dtype.kind not in "iub":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if array.ndim == 0:
            return item.item()
        return array.astype(bool) if array.dtype == np.uint8 else array.copy()
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, np.integer) or (
        hasattr(item, "__index__") and not isinstance(item, np.ndarray)
    ):
        return int(item)
    if isinstance(item, list | tuple | range | np.ndarray):
        found = np.array(
            [i.item() if isinstance(i, Tensor) else i for i in item]
            if not isinstance(item, np.ndarray)
            else item
        )
        if found.size == 0 and found.dtype.kind == "f":
            found = found.astype(np.int64)
        if found.dtype.kind in "iub":
            return found if found.ndim else found.item()
    raise TypeError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        "indices (got "
        f"{type(item).__name__})"
    )
