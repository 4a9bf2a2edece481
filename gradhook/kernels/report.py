"""Where the kernels' text was found, and what runs it."""

from __future__ import annotations

from gradhook import backend
from gradhook.kernels import sources
from gradhook.native import library


def status() -> str:
    """What is used on CUDA and on the CPU, or why not, in one line."""
    if sources.where() is None:
        return "none found (gradhook/_kernels, ../kernels): install gradhook again"
    cuda = "through CuPy" if backend.is_available() else f"not used: {backend.why_not()}"
    why_not = library.why_not()
    cpu = f"not used: {why_not} (NumPy formulas instead)" if why_not else "native"
    found = f"{', '.join(sources.names())} in {sources.where()}"
    return f"{found}; on CUDA {cuda}; on the CPU {cpu}"
