"""Pattern: where the numbers of a sparse matrix stand."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class Pattern:
    """The places of a sparse matrix' numbers, as compressed rows; what products need besides is
    made when first asked for, and kept.

    shape: (m, n). indptr: (m + 1,), indices: (nnz,), integers of one dtype. order: the position in
    the values of the k-th entry by rows, None when they stand by rows. All
    arrays are of one module.
    """

    __slots__ = ("_places", "_transposed", "indices", "indptr", "order", "shape")

    def __init__(
        self, shape: tuple[int, int], indptr: Array, indices: Array, order: Array = None
    ) -> None:
        self.shape, self.indptr, self.indices, self.order = shape, indptr, indices, order
        self._places: tuple[Array, Array] | None = None
        self._transposed: Pattern | None = None

    @property
    def nnz(self) -> int:
        """How many entries are stored."""
        return int(self.indices.size)

    @classmethod
    def of_places(cls, xp: Any, shape: tuple[int, int], rows: Array, columns: Array) -> Pattern:
        """The pattern of entries at (rows[k], columns[k]), in any order; one place may stand
        several times, its values add up.
        """
        order = xp.argsort(rows, kind="stable")
        starts = xp.arange(shape[0] + 1, dtype=rows.dtype)
        indptr = xp.searchsorted(rows[order], starts).astype(rows.dtype)
        made = cls(shape, indptr, columns[order], order.astype(rows.dtype))
        made._places = (rows, columns)
        return made

    def places(self, xp: Any) -> tuple[Array, Array]:
        """(rows, columns) of the entries, in the order of the values: (nnz,) each."""
        if self._places is None:
            at = xp.arange(self.nnz, dtype=self.indptr.dtype)
            rows = xp.searchsorted(self.indptr, at, side="right").astype(at.dtype) - 1
            columns = self.indices
            if self.order is not None:
                back = xp.empty_like(self.order)
                back[self.order] = at
                rows, columns = rows[back], columns[back]
            self._places = (rows, columns)
        return self._places

    def transposed(self, xp: Any) -> Pattern:
        """The pattern of the transpose, for the same values: one sort, the first time."""
        if self._transposed is None:
            rows, columns = self.places(xp)
            self._transposed = Pattern.of_places(xp, self.shape[::-1], columns, rows)
            self._transposed._transposed = self
        return self._transposed

    def __repr__(self) -> str:
        kind = "NumPy" if isinstance(self.indices, np.ndarray) else "CuPy"
        return (
            f"<pattern of a {self.shape[0]} x {self.shape[1]} matrix, {self.nnz} entries, {kind}>"
        )
