"""LU factors and systems solved with them: `gradhook.linalg` and PyTorch's older names."""

from __future__ import annotations

from typing import Any

from gradhook import return_types
from gradhook.ops.axes import broadcast
from gradhook.overloads import linalg_checks as check
from gradhook.overloads.linalg_solving import solve_triangular
from gradhook.overloads.recorded import multi, ops, tensor_of
from gradhook.tensor import Tensor

OLDER = {"lu": "old_lu", "lu_solve": "old_lu_solve"}
RENAMED: dict[str, str] = OLDER
LINALG = ("lu", "lu_factor", "lu_factor_ex", "lu_solve")
FUNCTIONS = ("lu", "lu_unpack", "lu_solve")
METHODS = ("lu", "lu_solve")
PROPERTIES: tuple[str, ...] = ()


def _refuse_unpivoted(name: str, A: Tensor, pivot: bool) -> None:
    if not pivot and A.device.type == "cpu":
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """(LU, pivots): both factors in one matrix, and the row exchanges, from 1, int32.

    A: (..., m, n). Result: shape of A, and (..., min(m, n)). Floating or complex. Source:
    torch.linalg.lu_factor.
    """
    check.matrices("linalg.lu_factor", A)
    _refuse_unpivoted("linalg.lu_factor", A, pivot)
    return return_types.linalg_lu_factor(*multi.lu_factors(A, pivot=pivot)[:2])


def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> return_types.linalg_lu_factor_ex:
    """lu_factor with info: the first zero on U's diagonal (from 1), or 0; int32.

    A: (..., m, n), floating or complex.

    Errors: RuntimeError where check_errors and U is singular.
    """
    check.matrices("linalg.lu_factor_ex", A)
    _refuse_unpivoted("linalg.lu_factor_ex", A, pivot)
    packed, pivots = multi.lu_factors(A, pivot=pivot)[:2]
    zero = ops.equal(ops.diagonal(packed.detach(), dim1=-2, dim2=-1), 0)
    info = check.first_true(zero)
    if check_errors and bool(ops.any(zero)):
        text = "U[{k},{k}] is zero and using it on lu_solve would result in a division by zero."
        raise check.LinAlgError(check.failure("linalg.lu_factor_ex", info, text))
    return return_types.linalg_lu_factor_ex(packed, pivots, info)


def _permutation(like: Tensor, order: Tensor) -> Tensor:
    """The matrix P with (P x)[order] = x, of like's dtype. order: (..., m)."""
    m = order.shape[-1]
    rows = ops.expand_dims(ops.cumsum(ops.ones_like(order), axis=-1), axis=-1)
    hit = ops.equal(ops.subtract(rows, 1), ops.expand_dims(order, axis=-2))
    return ops.cast(hit, dtype=like._a.dtype) if m else ops.zeros_like(like[..., :m])


def lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """(P, L, U) with A = P L U. A: (..., m, n), k = min(m, n).

    Result: (..., m, m), (..., m, k), (..., k, n). Floating or complex. Source: torch.linalg.lu.
    """
    check.matrices("linalg.lu", A)
    _refuse_unpivoted("linalg.lu", A, pivot)
    packed, _, order, _ = multi.lu_factors(A, pivot=pivot)
    return return_types.linalg_lu(
        _permutation(A.detach(), order), ops.lu_lower(packed), ops.lu_upper(packed)
    )


def old_lu(input: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:
    """lu_factor under its older name, as a tuple; with get_infos also lu_factor_ex's info.

    A: (..., m, n), floating or complex.
    """
    found = lu_factor_ex(input, pivot=pivot)
    return tuple(found) if get_infos else tuple(found[:2])


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> return_types.lu_unpack:
    """(P, L, U) of what lu_factor gave; empty Tensors for what is not asked. Source:
    torch.lu_unpack. Floating or complex. Errors: RuntimeError for pivots that are not int32.
    """
    if unpack_pivots and LU_pivots.dtype.title != "Int":
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype. Note: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    check.at_least_two("torch.lu_unpack", LU_data, "LU_data")
    none = tensor_of(LU_data._a.reshape(-1)[:0].copy())
    lower, upper, matrix = none, none, none
    if unpack_data:
        lower, upper = ops.lu_lower(LU_data), ops.lu_upper(LU_data)
    if unpack_pivots:
        order = ops.permutation_of_pivots(LU_pivots, n=LU_data.shape[-2])
        matrix = _permutation(LU_data.detach(), order)
    return return_types.lu_unpack(matrix, lower, upper)


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """The X of A X = B (X A = B where not left; A^H where adjoint) from lu_factor(A).

    LU: (..., n, n), pivots: (..., n), B: (..., n, k). Result: shape of B, batches broadcast.
    Floating or complex.
    Errors: RuntimeError. Source: torch.linalg.lu_solve.
    """
    name = "linalg.lu_solve"
    check.square(name, LU, "LU")
    check.matrices(name, B, "B")
    check.same_dtype(name, LU, B)
    if pivots.dtype.title != "Int":
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    n = LU.shape[-1]
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix"
        )
    if B.shape[-2 if left else -1] != n:
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation AX = B")
    if not left:
        return ops.adjoint(lu_solve(LU, pivots, ops.adjoint(B), adjoint=not adjoint))
    matrix = _permutation(LU.detach(), ops.permutation_of_pivots(pivots, n=n))
    shape = (*broadcast(tuple(LU.shape[:-2]), tuple(B.shape[:-2])), *B.shape[-2:])
    B = ops.broadcast_to(B, shape=shape)
    if adjoint:
        half = solve_triangular(ops.adjoint(LU), B, upper=False)
        x = solve_triangular(ops.adjoint(LU), half, upper=True, unitriangular=True)
        return ops.matmul(matrix, x)
    x = ops.matmul(ops.matrix_transpose(matrix), B)
    half = solve_triangular(LU, x, upper=False, unitriangular=True)
    return solve_triangular(LU, half, upper=True)


def old_lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """linalg.lu_solve under its older name and order of inputs.

    b: (..., n, k), LU: (..., n, n), pivots: (..., n) int32; floating or complex.
    """
    return lu_solve(LU_data, LU_pivots, b)
