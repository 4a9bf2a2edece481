"""LoadError: a file that can't be loaded, in one clear sentence."""

from __future__ import annotations

import pickle
from typing import Any


class LoadError(pickle.UnpicklingError, RuntimeError):
    """A file is damaged, of another format, or names what weights don't need.

    The text names the file, what was found, what was expected and the way out. Nothing was changed.
    """


def shown(value: Any, limit: int = 60) -> str:
    """A value from a file, short enough for an error: of containers only the class."""
    if isinstance(value, str | bytes):
        text = repr(value[:limit])
    elif value is None or isinstance(value, bool | float):
        text = repr(value)
    elif isinstance(value, int):
        text = str(value) if value.bit_length() < 128 else f"an int of {value.bit_length()} bits"
    else:
        text = f"a {type(value).__name__}"
    return text if len(text) <= limit + 3 else text[:limit] + "..."


class Budget:
    """How many bytes of Python objects a file may still make: a multiple of the file's own size."""

    PER_BYTE = 64  # an empty list in a list takes 3 bytes of a file, and 72 of memory
    FREE = 1 << 20

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.left = self.PER_BYTE * nbytes + self.FREE

    def spend(self, nbytes: int) -> None:
        """Errors: LoadError when the file makes more of itself than any honest one does."""
        self.left -= nbytes
        if self.left < 0:
            raise LoadError(
                f"its pickle of {self.nbytes} bytes asks for more than {self.PER_BYTE} times its "
                "size in objects, as no file of weights does; it was made to fill the memory"
            )
