"""How many threads native kernels divide their work among."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any

VARIABLES = ("GRADHOOK_NUM_THREADS", "OMP_NUM_THREADS")
MOST = 1024


class Count:
    """The number that was asked for, and what tells the native runtime once it is loaded."""

    given: int | None = None
    apply: Callable[[int], Any] | None = None


def default_threads() -> int:
    """$GRADHOOK_NUM_THREADS, else $OMP_NUM_THREADS, else the cores this process may use."""
    for name in VARIABLES:
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdigit() and int(text):
            return min(int(text), MOST)
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only; knows of container limits
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


def get_num_threads() -> int:
    """How many threads native CPU kernels use. As torch.get_num_threads, but for gradhook's own
    threads alone: NumPy's BLAS has its own (threadpoolctl changes those).
    """
    return default_threads() if Count.given is None else Count.given


def set_num_threads(number: Any) -> None:
    """Divide the work of native CPU kernels among so many threads; the results have the same bits
    for any number. number: int from 1 to 1024.

    Errors: TypeError for what is no int, RuntimeError for a number out of range, as PyTorch.
    NumPy's BLAS has threads of its own, which threadpoolctl and OPENBLAS_NUM_THREADS set.
    """
    try:
        count = operator.index(number)
    except TypeError:
        found = type(number).__name__
        raise TypeError(f"set_num_threads expects an int, but got {found}") from None
    if not 0 < count <= MOST:
        raise RuntimeError(f"set_num_threads expects a number from 1 to {MOST}, but got {count}")
    Count.given = count
    if Count.apply is not None:
        Count.apply(count)
