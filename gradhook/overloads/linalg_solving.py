"""Systems of equations, inverses, determinants, LU: `gradhook.linalg` and PyTorch's older names."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook import return_types
from gradhook.overloads import linalg_checks as check
from gradhook.overloads.recorded import multi, ops, tensor_of
from gradhook.tensor import Tensor

OLDER = {"det": "old_det", "slogdet": "old_slogdet"}
RENAMED: dict[str, str] = OLDER
LINALG = tuple(
    """
    solve solve_ex inv inv_ex det slogdet pinv lstsq solve_triangular tensorinv tensorsolve
""".split()
)
FUNCTIONS = tuple("inverse pinverse det logdet slogdet triangular_solve".split())
METHODS = FUNCTIONS
PROPERTIES: tuple[str, ...] = ()


def vector_case(A: Tensor, B: Tensor) -> bool:
    """Whether B is a vector (a batch of them), as torch.linalg.solve reads it."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def _system(name: str, A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, bool]:
    """B as matrices and whether it was a vector. Errors: RuntimeError where they do not fit."""
    check.square(name, A)
    check.floating(name, A, B)
    check.same_dtype(name, A, B)
    vector = vector_case(A, B)
    if vector and not left:
        raise RuntimeError(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. "
            "In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    if vector:
        B = ops.expand_dims(B, axis=-1)
    check.at_least_two(name, B, "B")
    rows = B.shape[-2 if left else -1]
    if rows != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )
    return B, vector


def _solved(A: Tensor, B: Tensor, left: bool, vector: bool) -> Tensor:
    if left:
        x = ops.matrix_solve(A, B)
    else:
        x = ops.matrix_transpose(ops.matrix_solve(ops.matrix_transpose(A), ops.matrix_transpose(B)))
    return ops.squeeze(x, axis=-1) if vector else x


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X of A X = B, or of X A = B where not left. A: (..., n, n), B: (..., n, k) or (..., n).

    Result: shape of B, batches broadcast. Errors: RuntimeError for other shapes or dtypes,
    LinAlgError for singular matrices on the CPU. Source: torch.linalg.solve.
    """
    B, vector = _system("linalg.solve", A, B, left)

    def run() -> Tensor:
        return _solved(A, B, left, vector)

    found: Tensor = check.checked(
        "torch.linalg.solve", A, run, check.zero_pivots, check.SINGULAR_SYSTEM
    )
    return found


def _regular(A: Tensor, info: Tensor) -> Tensor:
    """A with the matrices that failed replaced by the identity."""
    one = ops.diag_embed(ops.ones_like(ops.diagonal(A, dim1=-2, dim2=-1)))
    failed = ops.expand_dims(ops.expand_dims(ops.not_equal(info, 0), axis=-1), axis=-1)
    return ops.where(failed, one, A)


def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> return_types.linalg_solve_ex:
    """solve without an error: (result, info), info the first zero pivot of each matrix or 0.

    The result of a singular matrix is undefined. Errors: LinAlgError where check_errors.
    Floating or complex.
    """
    B, vector = _system("linalg.solve_ex", A, B, left)
    info = check.zero_pivots(A)
    if check_errors and bool(ops.any(ops.not_equal(info, 0))):
        raise check.LinAlgError(check.failure("linalg.solve_ex", info, check.SINGULAR_SYSTEM))
    return return_types.linalg_solve_ex(_solved(_regular(A, info), B, left, vector), info)


def inv(A: Tensor) -> Tensor:
    """Inverse of square matrices. A: (..., n, n). Result: shape of A.

    Errors: RuntimeError for other shapes or dtypes, LinAlgError for singular matrices on the CPU.
    Source: torch.linalg.inv.
    """
    check.square("linalg.inv", A)

    def run() -> Tensor:
        return ops.inv(A)

    found: Tensor = check.checked("linalg.inv", A, run, check.zero_pivots, check.SINGULAR_INVERSE)
    return found


def inv_ex(A: Tensor, *, check_errors: bool = False) -> return_types.linalg_inv_ex:
    """inv without an error: (inverse, info), info the first zero pivot of each matrix or 0.

    The inverse of a singular matrix is undefined. Errors: LinAlgError where check_errors.
    Floating or complex.
    """
    check.square("linalg.inv_ex", A)
    info = check.zero_pivots(A)
    if check_errors and bool(ops.any(ops.not_equal(info, 0))):
        raise check.LinAlgError(check.failure("linalg.inv_ex", info, check.SINGULAR_INVERSE))
    return return_types.linalg_inv_ex(ops.inv(_regular(A, info)), info)


def inverse(input: Tensor) -> Tensor:
    """linalg.inv under its older name. A: (..., n, n), floating or complex. Result: as A."""
    return inv(input)


def det(A: Tensor) -> Tensor:
    """Determinants of square matrices. A: (..., n, n). Result: (...).

    Errors: RuntimeError for other shapes or dtypes. Source: torch.linalg.det.
    """
    check.square("linalg.det", A)
    return ops.det(A)


def logdet(input: Tensor) -> Tensor:
    """Log of the determinants: NaN for negative ones, -inf for 0.

    input: (..., n, n). Result: (...). Errors: RuntimeError for other shapes or dtypes. Source:
    torch.logdet.
    """
    check.square("logdet", input)
    sign, size = multi.slogdet_parts(input)
    return ops.add(ops.log(sign), size)


def slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """(sign, logabsdet) of square matrices. A: (..., n, n). Result: (...) each, the second real.

    Errors: RuntimeError for other shapes or dtypes. Source: torch.linalg.slogdet.
    """
    check.square("linalg.slogdet", A)
    return return_types.linalg_slogdet(*multi.slogdet_parts(A))


def old_det(input: Tensor) -> Tensor:
    """linalg.det under its older name. A: (..., n, n), floating or complex. Result: (...)."""
    return det(input)


def old_slogdet(input: Tensor) -> return_types.slogdet:
    """linalg.slogdet under its older name. A: (..., n, n), floating or complex. Result: (...)."""
    return return_types.slogdet(*slogdet(input))


def tolerance(value: Any, function: str = "pinv", name: str = "atol") -> Any:
    """A tolerance given as number or Tensor, for an attribute. Errors: RuntimeError for a complex
    one, of the function and name.
    """
    if not isinstance(value, Tensor):
        return value
    if value._a.dtype.kind == "c":
        raise RuntimeError(
            f"torch.linalg.{function}: {name} tensor of complex type is not supported. Got "
            f"{value.dtype.title}"
        )
    return value._a


def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """Moore-Penrose inverse; singular values up to max(atol, rtol * the largest) count as 0.

    A: (..., m, n). Result: (..., n, m). rtol (also called rcond): max(m, n) eps where atol is 0,
    else 0. Floating or complex. Source: torch.linalg.pinv.
    """
    check.matrices("linalg.pinv", A)
    if hermitian:
        check.square("linalg.pinv", A)
    limit = tolerance(rcond, name="rcond") if rtol is None else tolerance(rtol, name="rtol")
    return ops.pseudo_inverse(A, atol=tolerance(atol), rtol=limit, hermitian=hermitian)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """linalg.pinv under its older name.

    A: (..., m, n), floating or complex. Result: (..., n, m).
    """
    return pinv(input, rcond)


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> return_types.linalg_lstsq:
    """The X of least |A X - B|, of least norm itself; by singular values whatever the driver.

    A: (..., m, n), B: (..., m, k) or (..., m). Result: solution (..., n, k), residuals (..., k)
    where m > n and all ranks are n (empty else, and of driver gelsy), rank (...) int64 (empty for
    gels), singular_values (empty but for gelsd, gelss). Source: torch.linalg.lstsq.
    Errors: RuntimeError for other shapes and drivers.
    """
    name = "torch.linalg.lstsq"
    check.matrices(name, A, "input")
    check.same_dtype(name, A, B)
    driver = "gelsy" if driver is None else driver
    if driver not in DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), "
            f"found {driver!r}"
        )
    vector = vector_case(A, B)
    right = ops.expand_dims(B, axis=-1) if vector else B
    if B.ndim < 1 or right.ndim < 2 or right.shape[-2] != A.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2)")
    m, n = A.shape[-2:]
    eps = float(np.finfo(A._a.dtype).eps)
    rtol = eps * max(m, n) if rcond is None else rcond
    x = ops.matmul(ops.pseudo_inverse(A, rtol=rtol), right)
    values = ops.singular_values(A.detach())
    largest = values[..., :1]
    rank = ops.sum(ops.greater(values, ops.multiply(largest, rtol)), axis=-1)
    none = tensor_of(values._a[..., :0].reshape(-1)[:0].copy())
    residuals = ops.clone(ops.real(ops.reshape(x, shape=(-1,)))[:0])
    if m > n and driver != "gelsy" and bool(ops.all(ops.equal(rank, n))):
        size = ops.absolute(ops.subtract(ops.matmul(A, x), right))
        residuals = ops.sum(ops.multiply(size, size), axis=-2)
    no_rank = tensor_of(none._a.astype("i8"))
    return return_types.linalg_lstsq(
        ops.squeeze(x, axis=-1) if vector else x,
        residuals,
        no_rank if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else none,
    )


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The X of A X = B (X A = B where not left), of the upper or lower triangle of A.

    A: (..., n, n), B: (..., n, k). Result: shape of B, batches broadcast. unitriangular: the
    diagonal counts as 1. Floating or complex. Source: torch.linalg.solve_triangular.
    Errors: RuntimeError for other shapes.
    """
    name = "linalg.solve_triangular"
    check.square(name, A)
    check.matrices(name, B, "B")
    check.same_dtype(name, A, B)
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )
    return ops.solve_triangle(A, B, upper=upper, left=left, unitriangular=unitriangular)


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> return_types.triangular_solve:
    """(solution, A) of the older name of solve_triangular, with transpose: A^T X = b.

    b: (..., n, k), A: (..., n, n), floating or complex.
    """
    check.square("triangular_solve", A)
    check.matrices("triangular_solve", b, "b")
    if transpose:
        A, upper = ops.matrix_transpose(A), not upper
    found = solve_triangular(A, b, upper=upper, unitriangular=unitriangular)
    clone = ops.clone(ops.matrix_transpose(A) if transpose else A)
    return return_types.triangular_solve(found, clone)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map between its last dimensions and its first `ind` ones.

    A: shape[:ind] and shape[ind:] of one product. Result: shape[ind:] + shape[:ind]. Floating or
    complex. Source: torch.linalg.tensorinv. Errors: RuntimeError where the two products of sizes
    differ, or ind is not positive.
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', found {ind}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    n, m = int(np.prod(last)), int(np.prod(first))
    if n != m:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {n} != {m}"
        )
    return ops.reshape(inv(ops.reshape(A, shape=(m, n))), shape=last + first)


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """The X with tensordot(A, X, X.ndim) == B; `dims` of A are moved to its end first.

    A: (*B.shape, *X.shape) of one product. Result: shape of X. Source: torch.linalg.tensorsolve.
    Floating or complex. Errors: RuntimeError where the two products of sizes differ.
    """
    if dims is not None:
        moved = [d % A.ndim for d in dims]
        kept = [d for d in range(A.ndim) if d not in moved]
        A = ops.permute_dims(A, dims=(*kept, *moved))
    shape = tuple(A.shape[B.ndim :])
    n, m = int(np.prod(shape)), int(np.prod(A.shape[: B.ndim]))
    if n != m or m != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {n} != {m}"
        )
    found = solve(ops.reshape(A, shape=(m, n)), ops.reshape(B, shape=(m,)))
    return ops.reshape(found, shape=shape)
