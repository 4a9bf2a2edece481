"""Parts of large NumPy arrays: what an expression of many array calls keeps in between then stays
in a core's cache, and is no fresh memory, whose page faults cost as much as the arithmetic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

PART = 1 << 14  # elements: 64 kB of float32, so that some ten arrays fit in 1 MB
LONGEST_ROW = 4096
MOST_HELD = 1 << 23  # bytes of one scratch array that a thread keeps
LINE = 64  # bytes of a line of cache


def are_large(*arrays: Any) -> bool:
    """Whether these are contiguous float32 or float64 arrays of one shape and dtype worth parts."""
    first = arrays[0]
    if first.size < 2 * PART or first.dtype.char not in "fd":
        return False
    shape, dtype = first.shape, first.dtype
    return all([a.flags.c_contiguous and a.shape == shape and a.dtype == dtype for a in arrays])


def slices(length: int, step: int) -> Iterator[slice]:
    """Slices of `step` that cover a length."""
    return (slice(start, start + step) for start in range(0, length, step))


def rows_a_part(n: int) -> int:
    """How many rows of n elements make a part."""
    return max(1, PART // n)


class _Held(threading.local):
    """The scratch memory of a thread."""

    def __init__(self) -> None:
        self.buffers: dict[str, Any] = {}


_held = _Held()


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised array for use within one kernel, which no other use of the name in this
    thread may overlap. Its memory is kept for the next one, up to MOST_HELD, as page faults of
    fresh memory cost more than what is done with it.
    """
    size = prod(shape) * dtype.itemsize
    if size > MOST_HELD:
        return np.empty(shape, dtype)
    held = _held.buffers.get(name)
    if held is None or held.size < size:
        fresh = np.empty(size + LINE, np.uint8)
        start = -fresh.ctypes.data % LINE
        held = _held.buffers[name] = fresh[start : start + size]
    return held[:size].view(dtype).reshape(shape)


def in_parts(xp: Any, function: Callable[..., Any], *arrays: Any) -> Any:
    """function(xp, *arrays), which works element by element and keeps the dtype; other arrays than
    `are_large` names are handed over whole.
    """
    if type(arrays[0]) is not np.ndarray or not are_large(*arrays):
        return function(xp, *arrays)
    out = np.empty_like(arrays[0])
    flat, target = [a.reshape(-1) for a in arrays], out.reshape(-1)
    for part in slices(target.size, PART):
        target[part] = function(xp, *[a[part] for a in flat])
    return out
