"""Memory of gradhook's own large NumPy arrays, kept for the next when one dies.

The page faults of fresh memory cost more than what most kernels do with it. A block is given to
another array only when the one that owned it is gone, however many views it had. See
kernels/buffers_cpu.cpp. Without native kernels arrays are NumPy's own.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

VARIABLE = "GRADHOOK_CPU_BUFFERS"
LARGE = 1 << 15  # elements: smaller arrays are NumPy's own
MOST = (1 << 63) - 1


class Buffers:
    """make(callable, args): callable(*args) with NumPy's memory from the pool; None without one.

    load: gives it, once the runtime was loaded. runtime: what holds the pool; limit: bytes it may
    keep, None for the runtime's own number.
    """

    make: Any = None
    load: Callable[[], Any] = staticmethod(lambda: None)
    runtime: ctypes.CDLL | None = None
    limit: int | None = None


class Stats(NamedTuple):
    """What the pool did: blocks given again and fresh ones; bytes kept, and at most."""

    hits: int
    misses: int
    held: int
    limit: int


def start(runtime: ctypes.CDLL) -> None:
    """Use the runtime's pool. What it keeps at most: $GRADHOOK_CPU_BUFFERS, megabytes."""
    table = np._core._multiarray_umath._ARRAY_API if hasattr(np, "_core") else None
    if table is None:
        return
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    held = ctypes.PyDLL(runtime._name)  # calls keep Python's lock
    held.gradhook_use_numpy.argtypes = [ctypes.c_void_p]
    held.gradhook_use_numpy.restype = None
    held.gradhook_use_numpy(pointer(table, None))
    make = held.gradhook_with_buffers
    make.argtypes, make.restype = [ctypes.py_object, ctypes.py_object], ctypes.py_object
    runtime.gradhook_limit_buffers.argtypes = [ctypes.c_longlong]
    runtime.gradhook_limit_buffers.restype = runtime.gradhook_empty_buffers.restype = None
    Buffers.runtime, Buffers.make = runtime, make
    given = os.environ.get(VARIABLE, "")
    if Buffers.limit is None and given.isdigit():
        Buffers.limit = int(given) << 20
    if Buffers.limit is not None:
        limit(Buffers.limit)


def limit(nbytes: int) -> None:
    """Keep so many bytes at most, from now on or once the pool is there; 0: none is used."""
    Buffers.limit = nbytes = min(nbytes, MOST)
    if Buffers.runtime is not None:
        Buffers.runtime.gradhook_limit_buffers(nbytes)


def drop() -> None:
    """Give all kept blocks back."""
    if Buffers.runtime is not None:
        Buffers.runtime.gradhook_empty_buffers()


def stats() -> Stats | None:
    """What the pool did; None where there is none."""
    if Buffers.runtime is None:
        return None
    found = (ctypes.c_longlong * len(Stats._fields))()
    at = ctypes.addressof(found)
    places = [ctypes.c_void_p(at + k * ctypes.sizeof(ctypes.c_longlong)) for k in range(len(found))]
    Buffers.runtime.gradhook_buffers(*places)
    return Stats(*found)


def use_always() -> bool:
    """From now on all arrays that NumPy makes in this context are the pool's. False without one."""
    if Buffers.runtime is None:
        return False
    use = ctypes.PyDLL(Buffers.runtime._name).gradhook_always
    use.restype = ctypes.py_object
    use()
    return True


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised C-contiguous NumPy array, a large one from the pool."""
    make = Buffers.make
    if make is None or prod(shape) < LARGE:
        return np.ndarray(shape, dtype)
    return make(np.ndarray, (shape, dtype))


def pooled(function: Any, *args: Any, **options: Any) -> Any:
    """function(*args, **options), its NumPy arrays in memory from the pool."""
    make = Buffers.make or Buffers.load()
    if make is None:
        return function(*args, **options)
    return make(partial(function, **options) if options else function, args)
