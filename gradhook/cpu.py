"""Memory of gradhook's arrays on the CPU: a pool of large blocks, and the process's allocator.

Native kernels (docs/cpu.md) write large results, from 32768 elements on, to memory of dead ones,
as the page faults of fresh memory cost more than most kernels. A block is given again only when the
array that owned it and all its views are gone. Where native kernels do not run there is no pool.
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any

from gradhook.native import buffers, library

__all__ = ["empty_cache", "memory_stats", "set_buffer_limit", "tune_allocator"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # <malloc.h>
_LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc takes no larger one on 64-bit machines
_KEPT = (1 << 31) - 1


def empty_cache() -> None:
    """Give the memory that the pool keeps back to the C library. As torch.cuda.empty_cache."""
    buffers.drop()


def memory_stats() -> dict[str, int]:
    """What the pool did in this process: "hits", requests of 64 KB or more that a kept block
    served; "misses", those that took fresh memory; "held_bytes", kept for later requests;
    "limit_bytes", what is kept at most. All 0 where native kernels do not run.
    """
    found = (library.is_available() and buffers.stats()) or buffers.Stats(0, 0, 0, 0)
    return {
        "hits": found.hits,
        "misses": found.misses,
        "held_bytes": found.held,
        "limit_bytes": found.limit,
    }


def set_buffer_limit(nbytes: Any) -> None:
    """Let the pool keep at most so many bytes of dead arrays; 0 turns it off. What is too much now
    is given back at once, and a block of more than half the limit is never kept. Default: 256 MB,
    or $GRADHOOK_CPU_BUFFERS megabytes.

    nbytes: int. Errors: TypeError for what is no int, ValueError for a negative one.
    """
    try:
        count = operator.index(nbytes)
    except TypeError:
        found = type(nbytes).__name__
        raise TypeError(f"set_buffer_limit expects an int of bytes, but got {found}") from None
    if count < 0:
        raise ValueError(f"set_buffer_limit expects 0 bytes or more, but got {count}")
    buffers.limit(count)


def tune_allocator() -> dict[str, str]:
    """Change how this whole process allocates, for the arrays that are not gradhook's own: call it
    once, at a program's start. Nothing does so unasked.

    "malloc": the C library keeps freed blocks of up to 32 MB and does not give the heap's end back
    to the system (glibc's mallopt with M_MMAP_THRESHOLD and M_TRIM_THRESHOLD), so the process's
    memory does not shrink. "numpy": arrays that NumPy makes from now on in this context, as in this
    thread, are the pool's; another thread calls this itself (NEP 49).

    Result: for each, what was done, or "not changed: " and why. Source: mallopt(3), NEP 49.
    """
    return {"malloc": _tune_malloc(), "numpy": _tune_numpy()}


def _tune_malloc() -> str:
    from gradhook.native.compiler import libc

    if not libc():
        return "not changed: the C library is not glibc"
    mallopt = ctypes.CDLL(None).mallopt
    if not mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) or not mallopt(_TRIM_THRESHOLD, _KEPT):
        return "not changed: mallopt refused"
    return f"blocks up to {_LARGEST_MMAP_THRESHOLD >> 20} MB are kept when freed"


def _tune_numpy() -> str:
    reason = library.why_not()
    if not reason and not buffers.use_always():
        reason = "this NumPy has no allocator interface"
    return f"not changed: {reason}" if reason else "arrays of this context are from the pool"
