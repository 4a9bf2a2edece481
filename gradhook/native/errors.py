"""What goes wrong with native code."""

from __future__ import annotations


class BuildError(RuntimeError):
    """A library that could not be built or loaded, with the compiler's or loader's complaint."""
