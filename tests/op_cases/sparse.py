"""Rows of ops/sparse_product.py: a 3 x 4 matrix with five entries, one of them named twice, made by
places on the device under test.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gradhook
from gradhook import backend
from gradhook.ops.sparse_pattern import Pattern
from op_cases import case, normal

ROW, COLUMN = np.array([2, 0, 1, 0, 2]), np.array([1, 3, 0, 0, 1])


class Places:
    """The pattern, made on first use: the device is chosen after this file is imported."""

    made: Any = None

    def __getattr__(self, name: str) -> Any:
        if Places.made is None:
            rows, columns = (gradhook.tensor(a)._a for a in (ROW, COLUMN))
            xp = backend.array_module(rows)
            Places.made = Pattern.of_places(xp, (3, 4), rows, columns)
        return getattr(Places.made, name)


PATTERN = Places()


def dense(values: np.ndarray) -> np.ndarray:
    found = np.zeros((3, 4), values.dtype)
    np.add.at(found, (ROW, COLUMN), values)
    return found


def product(values: Any, x: Any, pattern: Any, transpose: bool = False) -> Any:
    matrix = dense(values)
    return (matrix.T if transpose else matrix) @ x


def sampled(y: Any, x: Any, pattern: Any, transpose: bool = False) -> Any:
    found = y @ x.T
    return (found.T if transpose else found)[ROW, COLUMN]


ROWS = {
    "sparse_matmul": [
        case(normal(5), normal(4, 2, seed=1), pattern=PATTERN, ref=product, complexes=True),
        case(normal(5), normal(3, 2, seed=1), pattern=PATTERN, transpose=True, ref=product),
    ],
    "sparse_sampled": [
        case(normal(3, 2), normal(4, 2, seed=1), pattern=PATTERN, ref=sampled, complexes=True),
        case(normal(4, 2), normal(3, 2, seed=1), pattern=PATTERN, transpose=True, ref=sampled),
    ],
}
