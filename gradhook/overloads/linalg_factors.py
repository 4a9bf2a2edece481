"""Cholesky, eigenvalues, singular values and QR: `gradhook.linalg` and PyTorch's older names."""

from __future__ import annotations

from gradhook import return_types
from gradhook.overloads import linalg_checks as check
from gradhook.overloads.linalg_solving import solve_triangular
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

OLDER = {"svd": "old_svd", "qr": "old_qr", "cholesky": "old_cholesky"}
RENAMED: dict[str, str] = OLDER
LINALG = tuple(
    """
    cholesky cholesky_ex eigh eigvalsh eig eigvals svd svdvals qr householder_product
""".split()
)
FUNCTIONS = tuple("cholesky cholesky_solve cholesky_inverse svd qr orgqr ormqr geqrf".split())
METHODS = FUNCTIONS
PROPERTIES: tuple[str, ...] = ()


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L L^H, of A's lower triangle (upper: U with A = U^H U, of
    its upper triangle). A: (..., n, n). Result: shape of A.

    Errors: RuntimeError for other shapes or dtypes, LinAlgError for a matrix that is not positive
    definite, on the CPU. Source: torch.linalg.cholesky.
    """
    return _cholesky("linalg.cholesky", A, upper)


def _cholesky(name: str, A: Tensor, upper: bool) -> Tensor:
    check.square(name, A)
    given = ops.adjoint(A) if upper else A

    def run() -> Tensor:
        found = ops.cholesky(given)
        return ops.adjoint(found) if upper else found

    found: Tensor = check.checked(
        name, _mirrored(given), run, check.first_minor, check.NOT_POSITIVE
    )
    return found


def _mirrored(A: Tensor) -> Tensor:
    """The Hermitian matrix of A's lower triangle."""
    below = ops.tril(A.detach(), diagonal=-1)
    level = ops.diag_embed(ops.diagonal(A.detach(), dim1=-2, dim2=-1))
    return ops.add(ops.add(below, level), ops.adjoint(below))


def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False
) -> return_types.linalg_cholesky_ex:
    """cholesky without an error: (L, info), info the order of the first leading minor that is not
    positive, or 0. L of such a matrix is undefined. Errors: LinAlgError where check_errors.
    Floating or complex.
    """
    check.square("linalg.cholesky_ex", A)
    given = ops.adjoint(A) if upper else A
    info = check.first_minor(_mirrored(given))
    failed = ops.not_equal(info, 0)
    if check_errors and bool(ops.any(failed)):
        raise check.LinAlgError(check.failure("linalg.cholesky_ex", info, check.NOT_POSITIVE))
    one = ops.diag_embed(ops.ones_like(ops.diagonal(A, dim1=-2, dim2=-1)))
    failed = ops.expand_dims(ops.expand_dims(failed, axis=-1), axis=-1)
    found = ops.cholesky(ops.where(failed, one, given))
    return return_types.linalg_cholesky_ex(ops.adjoint(found) if upper else found, info)


def old_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """linalg.cholesky under its older name. A: (..., n, n), floating or complex. Result: as A."""
    return _cholesky("cholesky", input, upper)


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The X of A X = B from the Cholesky factor L of A. B: (..., n, k), L: (..., n, n).

    Result: shape of B, batches broadcast. upper: L is the factor U of A = U^H U. Errors:
    RuntimeError. Floating or complex. Source: torch.cholesky_solve.
    """
    check.square("cholesky_solve", L, "L")
    check.matrices("cholesky_solve", B, "B")
    check.same_dtype("cholesky_solve", L, B)
    if B.shape[-2] != L.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {L.shape[-1]} by "
            f"{L.shape[-1]} but each b matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    lower = ops.adjoint(L) if upper else L
    half = solve_triangular(lower, B, upper=False)
    return solve_triangular(ops.adjoint(lower), half, upper=True)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A from its Cholesky factor L (U where upper). L: (..., n, n).

    Result: shape of L. Floating or complex. Source: torch.cholesky_inverse.
    """
    check.square("cholesky_inverse", L, "L")
    one = ops.diag_embed(ops.ones_like(ops.diagonal(L, dim1=-2, dim2=-1)))
    half = solve_triangular(ops.adjoint(L) if upper else L, one, upper=False)
    return ops.matmul(ops.adjoint(half), half)


def _triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


def eigh(A: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """(eigenvalues, eigenvectors) of Hermitian A, of which one triangle is read, smallest first.

    A: (..., n, n). Result: (..., n) real, and shape of A, a vector a column. Errors: RuntimeError.
    Source: torch.linalg.eigh.
    """
    check.square("linalg.eigh", A)
    return return_types.linalg_eigh(*multi.eigh(A, UPLO=_triangle(UPLO)))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of eigh. A: (..., n, n). Result: (..., n) real."""
    check.square("linalg.eigvalsh", A)
    return ops.eigvalsh(A, UPLO=_triangle(UPLO))


def eig(A: Tensor) -> return_types.linalg_eig:
    """(eigenvalues, eigenvectors) of square A, in no order, vectors of norm 1.

    A: (..., n, n). Result: (..., n) and shape of A, a vector a column; both complex. The gradient
    takes for granted that the result does not depend on the vectors' phases. Source:
    torch.linalg.eig.
    """
    check.square("linalg.eig", A)
    return return_types.linalg_eig(*multi.eig(A))


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of eig. A: (..., n, n). Result: (..., n) complex."""
    check.square("linalg.eigvals", A)
    return multi.eig(A)[0]


def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None
) -> return_types.linalg_svd:
    """(U, S, Vh) with A = U diag(S) Vh, S largest first. A: (..., m, n), k = min(m, n).

    Result: (..., m, k), (..., k) real, (..., k, n), with all vectors where full. Gradients are of
    the first k vectors. driver: cuSOLVER's, refused on the CPU as in PyTorch. Source:
    torch.linalg.svd.
    """
    check.matrices("linalg.svd", A)
    _refuse_driver("linalg.svd", A, driver)
    return return_types.linalg_svd(*multi.svd_factors(A, full_matrices=full_matrices))


def _refuse_driver(name: str, A: Tensor, driver: str | None) -> None:
    if driver is not None and A.device.type == "cpu":
        raise RuntimeError(
            f"{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
            "backend."
        )


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, largest first. A: (..., m, n). Result: (..., min(m, n)) real."""
    check.matrices("linalg.svdvals", A)
    _refuse_driver("linalg.svdvals", A, driver)
    return ops.singular_values(A)


def old_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """(U, S, V), V not transposed; without compute_uv zeros of their shapes. Source: torch.svd.

    Floating or complex.
    """
    check.matrices("linalg.svd", input)
    if not compute_uv:
        zero = ops.zeros_like(input.detach())
        none = ops.matmul(zero, ops.adjoint(zero)), ops.matmul(ops.adjoint(zero), zero)
        return return_types.svd(none[0], ops.singular_values(input), none[1])
    u, s, vh = multi.svd_factors(input, full_matrices=not some)
    return return_types.svd(u, s, ops.adjoint(vh))


def qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """(Q, R) with A = Q R. A: (..., m, n), k = min(m, n).

    Result: (..., m, k) and (..., k, n); mode "complete": (..., m, m) and (..., m, n); mode "r": an
    empty Q. Errors: RuntimeError for another mode, and in backward where Q is not unique. Floating
    or complex. Source: torch.linalg.qr.
    """
    check.matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    return return_types.linalg_qr(*multi.qr_factors(A, mode=mode))


def old_qr(input: Tensor, some: bool = True) -> return_types.qr:
    """linalg.qr under its older name; not some: mode "complete".

    A: (..., m, n), floating or complex.
    """
    return return_types.qr(*qr(input, "reduced" if some else "complete"))


def geqrf(input: Tensor) -> return_types.geqrf:
    """(a, tau): R above the diagonal of a and Householder vectors below it; no gradient.

    input: (..., m, n). Result: its shape, and (..., min(m, n)). Floating or complex. Source:
    torch.geqrf.
    """
    check.matrices("torch.geqrf", input, "input")
    return return_types.geqrf(*multi.qr_reflectors(input))


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflections I - tau[i] v v^H, v below A's diagonal.

    A: (..., m, n) with m >= n, tau: (..., k) with k <= n. Result: shape of A. Errors: RuntimeError.
    Floating or complex.
    Source: torch.linalg.householder_product.
    """
    name = "torch.linalg.householder_product"
    check.matrices(name, A, "input")
    m, n = A.shape[-2:]
    k = tau.shape[-1] if tau.ndim else 0
    if m < n:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if n < k:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if tau.ndim != A.ndim - 1 or tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], found "
            f"{list(tau.shape)}"
        )
    check.same_dtype(name, A, tau)
    return _reflected(A, tau, _unit_columns(A, n))


def _unit_columns(A: Tensor, columns: int) -> Tensor:
    """The first columns of the identity as a batch like A's."""
    wide = ops.matmul(ops.zeros_like(A), ops.zeros_like(ops.matrix_transpose(A)))
    one = ops.diag_embed(ops.ones_like(ops.diagonal(wide, dim1=-2, dim2=-1)))
    return one[..., :columns]


def _reflected(A: Tensor, tau: Tensor, x: Tensor, turned: bool = False) -> Tensor:
    """The product of the reflections in A and tau, or its conjugate transpose, times x.

    The product is I - V T V^H with T = (I + D S)^-1 D, D the diagonal of tau and S the part of
    V^H V above the diagonal (Schreiber and Van Loan, 1989, solved for T): a few products whatever
    the number of reflections, and no division by tau.
    """
    k = tau.shape[-1]
    if k == 0:  # zeros with the history of A and tau
        zero = ops.expand_dims(ops.sum(tau, axis=-1, keepdims=True), axis=-1)
        return ops.add(x, ops.add(ops.sum(ops.tril(A[..., :0], diagonal=0)), zero))
    v = ops.add(ops.tril(A[..., :k], diagonal=-1), _unit_columns(A, A.shape[-2])[..., :k])
    along = ops.adjoint(v)
    factors = ops.expand_dims(tau, axis=-1)
    # solve_triangular reads the part above the diagonal, which counts as 1
    triangle = ops.multiply(factors, ops.matmul(along, v))
    parts = ops.matmul(along, x)
    if turned:
        parts = solve_triangular(ops.adjoint(triangle), parts, upper=False, unitriangular=True)
        parts = ops.multiply(ops.conj(factors), parts)
    else:
        parts = ops.multiply(factors, parts)
        parts = solve_triangular(triangle, parts, upper=True, unitriangular=True)
    return ops.subtract(x, ops.matmul(v, parts))


def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """linalg.householder_product under LAPACK's name.

    A: (..., m, n), tau: (..., k), floating or complex.
    """
    return householder_product(input, input2)


def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """The product Q C of geqrf's Q (input, input2) and C, C Q where not left, Q^H where transpose.

    input: (..., m, k), input2: (..., k), input3: C. Result: shape of C. Source: torch.ormqr.
    Floating or complex. Errors: RuntimeError where the sizes do not fit.
    """
    name = "torch.ormqr"
    check.matrices(name, input, "input")
    check.matrices(name, input3, "other")
    if input3.shape[-2 if left else -1] != input.shape[-2]:
        side = "other.shape[-2]" if left else "other.shape[-1]"
        raise RuntimeError(f"{name}: {side} must be equal to input.shape[-2]")
    if input2.ndim < 1 or input2.shape[-1] > input.shape[-1]:
        raise RuntimeError(f"{name}: tau.shape[-1] must be less than or equal to input.shape[-1]")
    if left:
        return _reflected(input, input2, input3, transpose)
    return ops.adjoint(_reflected(input, input2, ops.adjoint(input3), not transpose))
