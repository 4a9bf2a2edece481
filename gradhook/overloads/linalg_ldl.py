"""LDL factors of symmetric matrices: `gradhook.linalg`."""

from __future__ import annotations

from gradhook import return_types
from gradhook.ops.axes import broadcast
from gradhook.overloads import linalg_checks as check
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

LINALG = ("ldl_factor", "ldl_factor_ex", "ldl_solve")
_SINGULAR = "D[{k},{k}] is zero and using it on ldl_solve would result in a division by zero."


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """(LD, pivots) with A = P L D L^T P^T of symmetric A (L^H where hermitian), of its lower
    triangle; D has blocks of one row or two.

    A: (..., n, n). Result: shape of A, L and D packed; (..., n) int32, row exchanges from 1,
    negative twice for a block of two, as LAPACK's sytrf. No derivative, as in PyTorch. Errors:
    RuntimeError, LinAlgError where a column is 0 (on the CPU). Source: torch.linalg.ldl_factor.
    """
    found = _factored("linalg.ldl_factor", A, hermitian)
    if type(A._a).__module__ == "numpy":
        _refuse_singular("linalg.ldl_factor", found)
    return return_types.linalg_ldl_factor(found.LD, found.pivots)


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> return_types.linalg_ldl_factor_ex:
    """ldl_factor (shapes and dtypes as there) without an error: also info, (...) int32: the first
    column of 0, or 0.

    Errors: LinAlgError where check_errors. Source: torch.linalg.ldl_factor_ex.
    """
    found = _factored("linalg.ldl_factor_ex", A, hermitian)
    if check_errors:
        _refuse_singular("linalg.ldl_factor_ex", found)
    return found


def _factored(name: str, A: Tensor, hermitian: bool) -> return_types.linalg_ldl_factor_ex:
    check.square(name, A)
    complex_hermitian = hermitian and A._a.dtype.kind == "c"
    return return_types.linalg_ldl_factor_ex(*multi.ldl_factors(A, hermitian=complex_hermitian))


def _refuse_singular(name: str, found: return_types.linalg_ldl_factor_ex) -> None:
    if bool(ops.any(found.info)):
        raise check.LinAlgError(check.failure(name, found.info, _SINGULAR))


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """The X of A X = B from ldl_factor(A). LD: (..., n, n), pivots: (..., n) integers, B:
    (..., n, k). Result: shape of B, batches broadcast.

    It has a derivative for B; PyTorch has none. Errors: RuntimeError, IndexError for a vector.
    Source: torch.linalg.ldl_solve.
    """
    name = "linalg.ldl_solve"
    if B.ndim < 2:
        raise IndexError(f"{name}: B must have at least 2 dimensions, found {B.ndim}")
    check.square(name, LD, "LD")
    check.floating(name, B)
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if pivots._a.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype.title}")
    check.same_dtype(name, LD, B)
    n, k = B.shape[-2:]
    if n != LD.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {LD.shape[-1]} by "
            f"{LD.shape[-1]} but each b matrix is {n} by {k}"
        )
    lead = broadcast(tuple(LD.shape[:-2]), tuple(B.shape[:-2]))
    return ops.ldl_solution(
        ops.broadcast_to(LD, shape=(*lead, n, n)),
        ops.broadcast_to(pivots, shape=(*lead, n)),
        ops.broadcast_to(B, shape=(*lead, n, k)),
        hermitian=hermitian and LD._a.dtype.kind == "c",
    )
