"""Singular values and vectors of matrices of low rank, by random projection."""

from __future__ import annotations

from gradhook import creation, dtypes
from gradhook.overloads import linalg_checks as check
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = ("svd_lowrank", "pca_lowrank")
METHODS: tuple[str, ...] = ()
PROPERTIES: tuple[str, ...] = ()


def svd_lowrank(
    A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of A - M with about its q largest singular values, for A of low rank.

    A: (..., m, n), M: broadcasts to it, niter: subspace iterations. Result: (..., m, q), (..., q)
    real, (..., n, q). Source: torch.svd_lowrank; N. Halko, P. Martinsson, J. Tropp, "Finding
    structure with randomness" (2009), algorithms 4.4 and 5.1.
    """
    check.matrices("svd_lowrank", A)
    if M is not None:
        A = ops.subtract(A, M)
    if A.shape[-2] < A.shape[-1]:
        u, s, v = svd_lowrank(ops.adjoint(A), q, niter)
        return v, s, u
    turned = ops.adjoint(A)
    start = creation.randn(A.shape[-1], q, dtype=dtypes.of(A._a.dtype), device=A.device)
    basis = multi.qr_factors(ops.matmul(A, start))[0]
    for _ in range(niter):
        basis = multi.qr_factors(ops.matmul(turned, basis))[0]
        basis = multi.qr_factors(ops.matmul(A, basis))[0]
    u, s, vh = multi.svd_factors(ops.matmul(ops.adjoint(basis), A))
    return ops.matmul(basis, u), s, ops.adjoint(vh)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """svd_lowrank of A less the mean of its rows (as it is where not center): principal components
    in V's columns.

    A: (..., m, n), q: min(6, m, n) without. Errors: ValueError for other q and niter. Floating or
    complex. Source: torch.pca_lowrank.
    """
    check.matrices("pca_lowrank", A)
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = ops.subtract(A, ops.mean(A, axis=-2, keepdims=True))
    return svd_lowrank(A, q, niter)
