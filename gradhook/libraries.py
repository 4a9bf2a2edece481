"""The libraries beside an array module: SciPy of numpy, cupyx.scipy of cupy."""

from __future__ import annotations

from gradhook.backend import scipy as scipy

__all__ = ["scipy"]
