"""The CPU test device: the unmodified CuPy wheel on host memory, for tests without a GPU.

start() before CuPy is imported; then counters(), reset(), log(), missing() and the modes. Needs
Linux, g++, and the wheels cupy-cuda12x and nvidia-cuda-runtime-cu12; README.md has the rest.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager

from cpudevice import native

__all__ = ["counters", "deferred", "log", "missing", "null", "reset", "start", "started", "why_not"]


def why_not() -> str | None:
    """Why the device cannot be used here, in words; None when it can. Imports nothing heavy."""
    return native.why_not()


def started() -> bool:
    """Whether start() was called in this process."""
    return native.LOADED is not None


def start() -> None:
    """Build what is not built, and import CuPy on the device. Once a process.

    RuntimeError when CuPy is imported already, or with the reason of why_not().
    """
    if started():
        return
    if reason := why_not():
        raise RuntimeError(f"no CPU test device: {reason}")
    if "cupy" in sys.modules or "cupy_backends" in sys.modules:
        raise RuntimeError("cpudevice.start() comes before the first import of CuPy")
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB and cuTENSOR are not doubled
    native.load()
    for name in ("cpudevice.kernels", "cpudevice.stand_ins"):  # these import CuPy
        importlib.import_module(name).install()
    if os.environ.get("CPUDEVICE_POOL") == "0":
        importlib.import_module("cupy").cuda.set_allocator(None)


def counters() -> dict[str, int]:
    """Counts since the last reset, by the names of native.COUNTERS and their sum `syncs`."""
    return native.counters()


def reset() -> None:
    """Set all counters to 0, forget the log and what was missing."""
    native.call("cpudevice_reset")


def log() -> list[str]:
    """A line for each launch since the last reset, while `native.call("cpudevice_set_log", 1)`."""
    return native.lines("cpudevice_log")


def missing() -> list[str]:
    """The CUDA functions that were called since the last reset and that the device lacks."""
    return native.lines("cpudevice_missing")


@contextmanager
def deferred(on: bool = True):
    """Work of streams runs only when something waits for it: a missing wait shows."""
    before = native.call("cpudevice_set_deferred", int(on))
    try:
        yield
    finally:
        native.call("cpudevice_set_deferred", before)


@contextmanager
def null():
    """Kernels are counted and not run: what remains is the host's own time."""
    native.call("cpudevice_set_null", 1)
    try:
        yield
    finally:
        native.call("cpudevice_set_null", 0)
