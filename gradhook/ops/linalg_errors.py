"""The error of linear algebra, under PyTorch's name and class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class LinAlgError(RuntimeError):
    """A matrix for which the result does not exist: singular, not positive definite, not finite."""


@contextmanager
def failing(text: str) -> Iterator[None]:
    """NumPy's error in this block becomes a LinAlgError of this text. CuPy raises none."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise LinAlgError(text) from error
