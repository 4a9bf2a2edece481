"""Sparse matrices times dense tensors: over scipy.sparse matrices on the CPU, cupyx.scipy.sparse
ones on CUDA, with gradients for the dense side and for the stored values.

    A = gradhook.sparse.from_scipy(matrix)        # scipy.sparse or cupyx.scipy.sparse
    y = A @ x                                     # also gradhook.sparse.mm(matrix, x)
    y = A.with_values(values) @ x                 # values: a tensor that may require grad

The gradient of the values is computed at the stored places only. Needs SciPy (extra `scipy`).
"""

from __future__ import annotations

from math import prod
from typing import Any

from gradhook import backend
from gradhook.autograd import operands
from gradhook.autograd.binding import make
from gradhook.autograd.operands import tensor_of
from gradhook.autograd.record import ops
from gradhook.ops.sparse_pattern import Pattern
from gradhook.tensor import Tensor

__all__ = ["SparseMatrix", "from_scipy", "mm"]


class SparseMatrix:
    """An m x n matrix whose stored values are a tensor of shape (nnz,), at fixed places.

    `A @ x`, `x @ A`, `A.T`, `A.with_values(v)`. Attributes: values, shape (a tuple), nnz.
    `from_scipy` makes it; what products need of the places is found out once and shared by
    `with_values` and `T`.
    """

    __slots__ = ("_pattern", "_transposed", "values")
    __array_ufunc__ = None  # array @ matrix asks the matrix
    __array_priority__ = 1000

    def __init__(self, pattern: Pattern, values: Tensor, transposed: bool = False) -> None:
        if tuple(values.shape) != (pattern.nnz,):
            raise RuntimeError(
                f"sparse matrix: found values of shape {tuple(values.shape)}, expected "
                f"({pattern.nnz},), one for each stored entry"
            )
        backend.expect_device(
            values.detach()._a, backend.device_of(pattern.indices), "values of the sparse matrix"
        )
        self._pattern, self.values, self._transposed = pattern, values, transposed

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        m, n = self._pattern.shape
        return (n, m) if self._transposed else (m, n)

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return self._pattern.nnz

    @property
    def T(self) -> SparseMatrix:
        """The transpose, over the same values."""
        return SparseMatrix(self._pattern, self.values, not self._transposed)

    def with_values(self, values: Tensor) -> SparseMatrix:
        """The matrix with other values at the same places.

        values: (nnz,), in the order of the SciPy matrix' `data`. Errors: RuntimeError for another
        shape or device.
        """
        return SparseMatrix(self._pattern, tensor_of(values, "sparse product"), self._transposed)

    def __matmul__(self, x: Any) -> Tensor:
        return _product(self, tensor_of(x, "sparse product"))

    def __rmatmul__(self, x: Any) -> Tensor:
        return _from_left(tensor_of(x, "sparse product"), self)

    def __repr__(self) -> str:
        m, n = self.shape
        grad = ", requires_grad=True" if self.values.requires_grad else ""
        return (
            f"SparseMatrix({m} x {n}, {self.nnz} stored entries, dtype={self.values.dtype}, "
            f"device='{self.values.device}'{grad})"
        )


def from_scipy(matrix: Any) -> SparseMatrix:
    """A scipy.sparse or cupyx.scipy.sparse matrix or array of two dimensions as a SparseMatrix.

    CSR, CSC and COO keep the order of their `data` (COO may name a place twice: the values add up),
    and share its memory, as from_numpy does; other formats are converted to CSR.
    Errors: TypeError for anything else.
    """
    if not is_sparse(matrix):
        raise TypeError(
            f"from_scipy(): found {type(matrix).__name__}, expected a matrix of scipy.sparse or "
            "cupyx.scipy.sparse; scipy.sparse.csr_array(array) makes one"
        )
    if len(matrix.shape) != 2:
        raise TypeError(f"from_scipy(): found {len(matrix.shape)} dimensions, expected 2")
    m, n = (int(k) for k in matrix.shape)
    if matrix.format not in ("csr", "csc", "coo"):
        matrix = matrix.tocsr()
    values = make(backend.entered(matrix.data))
    if matrix.format == "coo":
        xp = backend.array_module(matrix.data)
        return SparseMatrix(Pattern.of_places(xp, (m, n), matrix.row, matrix.col), values)
    turned = matrix.format == "csc"
    shape = (n, m) if turned else (m, n)
    return SparseMatrix(Pattern(shape, matrix.indptr, matrix.indices), values, turned)


def mm(A: Any, x: Any, values: Tensor | None = None) -> Tensor:
    """The matrix product of a sparse matrix and a dense tensor.

    A: (m, n), a SparseMatrix or one of scipy.sparse or cupyx.scipy.sparse. x: (n,), (n, b) or
    batches of these columns (..., n, b), on A's device. values: (nnz,), in place of A's own; it and
    x get gradients. Result: (m,), (m, b) or (..., m, b), in the promoted dtype.
    Errors: RuntimeError for shapes or devices that do not fit. Source: torch.sparse.mm.
    """
    matrix = A if isinstance(A, SparseMatrix) else from_scipy(A)
    if values is not None:
        matrix = matrix.with_values(values)
    return _product(matrix, tensor_of(x, "sparse product"))


def is_sparse(x: Any) -> bool:
    """Whether this is a sparse matrix or array of scipy.sparse or cupyx.scipy.sparse."""
    root = type(x).__module__
    return root.startswith(("scipy.sparse", "cupyx.scipy.sparse")) and hasattr(x, "tocsr")


def _product(matrix: SparseMatrix, x: Tensor) -> Tensor:
    m, n = matrix.shape
    place = -1 if x.ndim == 1 else -2
    if x.ndim == 0 or x.shape[place] != n:
        raise RuntimeError(
            f"sparse product: mat1 and mat2 shapes cannot be multiplied: {m} x {n} and "
            f"{tuple(x.shape)}; expected x of shape ({n},), ({n}, b) or (..., {n}, b)"
        )
    where = matrix.values.device
    if x.device != where:
        raise backend.DeviceError(
            "sparse product: Expected all tensors to be on the same device, but found at least two "
            f"devices, {where} and {x.device}! move x with .to('{where}')"
        )
    batch = tuple(x.shape[:-2])
    if x.ndim == 1:
        columns = x.reshape(n, 1)
    elif batch:  # the batches side by side, as columns of one matrix
        columns = x.movedim(-2, 0).reshape(n, prod(batch) * x.shape[-1])
    else:
        columns = x
    found: Tensor = ops.sparse_matmul(
        matrix.values, columns, pattern=matrix._pattern, transpose=matrix._transposed
    )
    if x.ndim == 1:
        found = found.reshape(m)
    if batch:
        found = found.reshape(m, *batch, x.shape[-1]).movedim(0, -2)
    return found


def _from_left(x: Tensor, matrix: SparseMatrix) -> Tensor:
    if x.ndim < 2:
        return _product(matrix.T, x)
    found: Tensor = _product(matrix.T, x.transpose(-1, -2)).transpose(-1, -2)
    return found


def _operator(x: Any, y: Any) -> Any:
    """`tensor @ matrix`, and `matrix @ tensor` where the matrix leaves it to the tensor (cupyx)."""
    if isinstance(y, SparseMatrix) or is_sparse(y):
        return _from_left(x, y if isinstance(y, SparseMatrix) else from_scipy(y))
    return mm(x, y) if is_sparse(x) else NotImplemented


operands.FOREIGN["matmul"] = _operator
