"""Storage: one array with its version, its device and one cached host copy; cells share the
version between views.

A cell is the list `[version, Storage | None]` that a tensor, its views and what was saved of them
have in common.
It is made when first needed (a save, a view, an in-place op); its Storage when first asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook import backend
from gradhook.streams import HostCopy, copy_to_host

Cell = list[Any]


class InferenceCell:
    """The cell of an inference tensor: it has no version, so reading one says why and what to
    do.
    """

    def __getitem__(self, index: int) -> Any:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. To work around you can make a clone "
            "to get a normal "
            "tensor and use it in autograd."
        )


INFERENCE: Any = InferenceCell()


class Storage:
    """One array and what is known of it.

    array: the CuPy or NumPy array, any shape. version: how often it was written in place. lent: a
    hook holds it, so the first in-place op on it copies first and its NumPy export is read-only.
    adopted: lent, and a leaf's .grad: an export copies first, too, and may be written to.
    """

    __slots__ = ("__weakref__", "_copy", "_host", "adopted", "array", "lent", "version")

    def __init__(
        self, array: Any, version: int = 0, lent: bool = False, adopted: bool = False
    ) -> None:
        self.array = array
        self.version = version
        self.lent = lent
        self.adopted = adopted
        self._host: np.ndarray[Any, Any] | None = None
        self._copy: HostCopy | None = None

    @property
    def device(self) -> backend.device:
        """Where the array lives."""
        return backend.device_of(self.array)

    @property
    def nbytes(self) -> int:
        """Bytes of the array's elements."""
        return int(self.array.nbytes)

    def host(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array: the array itself on the CPU, else ONE cached copy, counted
        as a transfer.
        """
        if not backend.is_cupy(self.array):
            return np.asarray(self.array)
        if self._host is None:
            copy, self._copy = self._copy, None
            self._host = backend.to_host(self.array) if copy is None else copy.result()
        return self._host

    def host_async(self) -> HostCopy:
        """Start a copy into pinned host memory on a side stream; nobody waits for it. Asked again
        before a write: the same copy. On the CPU, and where the host copy is known: done at once.

        The values are those of now: later gradhook ops in place don't reach the copy.
        """
        if self._host is not None or not backend.is_cupy(self.array):
            return HostCopy(self.host())
        if self._copy is None:
            self._copy = copy_to_host(self.array, snapshot=not self.lent)
        return self._copy

    def moved(self, version: int) -> None:
        """The array was written: drop the host copy."""
        self.version = version
        self._host = self._copy = None


# In the cell of a lent tensor until its Storage is asked for.
LENT = Storage(None, lent=True)
ADOPTED = Storage(None, lent=True, adopted=True)


def is_lent(cell: Cell | None) -> bool:
    """Whether a hook holds the tensor with this cell."""
    return cell is not None and cell is not INFERENCE and cell[1] is not None and cell[1].lent


def is_adopted(cell: Cell | None) -> bool:
    """Whether this is the cell of a .grad that hooks hold, too."""
    return is_lent(cell) and cell[1].adopted  # type: ignore[index]


def storage_in(cell: Cell, array: Any) -> Storage:
    """The Storage in a cell, made on first demand."""
    found = cell[1]
    if found is None or found.array is None:
        lent, adopted = found is not None, found is ADOPTED
        found = cell[1] = Storage(array, cell[0], lent, adopted)
    return found  # type: ignore[no-any-return]


def bump_cell(cell: Cell) -> None:
    """One in-place write happened. Errors: RuntimeError for an inference tensor outside inference
    mode.
    """
    cell[0] += 1
    if cell[1] is not None:
        cell[1].moved(cell[0])


def bump(tensor: Any) -> None:
    """The array behind a tensor was written in place: move its version, shared by its views."""
    cell = tensor._v
    if cell is None:
        tensor._v = [1, None]
    elif cell is not INFERENCE:
        bump_cell(cell)
