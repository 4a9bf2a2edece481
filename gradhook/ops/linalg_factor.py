"""Factorisations of matrices: Cholesky, eigenvalues, singular values, QR.

Their gradients are not holomorphic, so formulas take and give gradients in PyTorch's convention
(linear=True) and conjugate by hand. Source of the formulas: PyTorch's linear algebra notes;
M. Giles, "An extended collection of matrix derivative results" (2008).
"""

from __future__ import annotations

from typing import Any

from gradhook.ops.linalg import kind_of
from gradhook.ops.linalg_errors import failing
from gradhook.ops.table import composite, op

_DIVERGED = (
    "linalg.{}: The algorithm failed to converge because the input matrix contained non-finite "
    "values."
)


@composite()
def adjoint(xp: Any, x: Any) -> Any:
    """Conjugate transpose of matrices. x: (..., m, n). Result: (..., n, m), a view when real."""
    turned = xp.matrix_transpose(x)
    return xp.conj(turned) if kind_of(x.dtype) == "c" else turned


@composite()
def real_part(xp: Any, x: Any) -> Any:
    """Real part; a real x as it is. Result: shape of x, real dtype."""
    return xp.real(x) if kind_of(x.dtype) == "c" else x


@composite()
def over_gaps(xp: Any, x: Any, gaps: Any) -> Any:
    """x / gaps, 0 where both are 0: equal values that nobody tells apart. Result: shape of x."""
    return x / xp.masked_fill(gaps, xp.logical_and(x == 0, gaps == 0), value=1)


@composite()
def solve_right(xp: Any, x: Any, a: Any) -> Any:
    """x a^-H. x: (..., m, n), a: (..., n, n). Result: (..., m, n)."""
    return xp.adjoint(xp.matrix_solve(a, xp.adjoint(x)))


@composite()
def cholesky_vjp(xp: Any, g: Any, out: Any) -> Any:
    """Gradient of cholesky: L^-H Φ(L^H g) L^-1, made Hermitian. Result: shape of out."""
    phi = xp.matmul(xp.adjoint(out), g)
    phi = xp.tril(phi, diagonal=-1) + xp.diag_embed(xp.diagonal(phi, dim1=-2, dim2=-1)) * 0.5
    back = xp.solve_right(xp.matrix_solve(xp.adjoint(out), phi), xp.adjoint(out))
    return (back + xp.adjoint(back)) * 0.5


@op(torch=None, linear=True, x=lambda xp, g, out: xp.cholesky_vjp(g, out))
def cholesky(xp: Any, x: Any) -> Any:
    """The lower triangular L of x = L L^H, of the lower triangle of x.

    x: (..., n, n) Hermitian and positive definite. Result: shape of x. Errors: LinAlgError for
    another x on NumPy; CuPy does not look.
    """
    with failing("cholesky: the input is not positive-definite"):
        return xp.linalg.cholesky(x)


@composite()
def eigh_vjp(xp: Any, g0: Any, g1: Any, out0: Any, out1: Any) -> Any:
    """Gradient of eigh: V (diag(g0) + offdiagonal(V^H g1 / E)) V^H, E[i, j] = w[j] - w[i].

    Result: shape of out1.
    """
    one = xp.diag_embed(xp.ones_like(out0))
    gaps = xp.expand_dims(out0, axis=-2) - xp.expand_dims(out0, axis=-1)
    turned = xp.matmul(xp.adjoint(out1), g1)
    turned = xp.masked_fill(turned, one == 1, value=0)
    middle = xp.over_gaps(turned, gaps + one) + xp.diag_embed(g0)
    return xp.matmul(out1, xp.matmul(middle, xp.adjoint(out1)))


@op(
    torch=None,
    n_outputs=2,
    linear=True,
    x=lambda xp, g0, g1, out0, out1: xp.eigh_vjp(g0, g1, out0, out1),
)
def eigh(xp: Any, x: Any, *, UPLO: str = "L") -> Any:
    """Eigenvalues, smallest first, and eigenvectors (columns) of one triangle of Hermitian x.

    x: (..., n, n). Result: (..., n) real and shape of x.
    """
    with failing(_DIVERGED.format("eigh")):
        values, vectors = xp.linalg.eigh(x, UPLO)
    return values, vectors


@composite()
def eigvalsh_vjp(xp: Any, g: Any, x: Any, *, UPLO: str) -> Any:
    """Gradient of eigvalsh: V diag(g) V^H. Result: shape of x."""
    vectors = xp.eigh(x, UPLO=UPLO)[1]
    return xp.matmul(vectors * xp.expand_dims(g, axis=-2), xp.adjoint(vectors))


@op(torch=None, linear=True, x=lambda xp, g, x, UPLO: xp.eigvalsh_vjp(g, x, UPLO=UPLO))
def eigvalsh(xp: Any, x: Any, *, UPLO: str = "L") -> Any:
    """Eigenvalues of one triangle of Hermitian x, smallest first.

    x: (..., n, n). Result: (..., n) real.
    """
    with failing(_DIVERGED.format("eigh")):
        return xp.linalg.eigvalsh(x, UPLO)


@composite()
def eig_vjp(xp: Any, g0: Any, g1: Any, out0: Any, out1: Any) -> Any:
    """Gradient of eig, of eigenvectors of norm 1. Result: shape of out1, complex."""
    one = xp.diag_embed(xp.ones_like(out0))
    gaps = xp.expand_dims(out0, axis=-2) - xp.expand_dims(out0, axis=-1)
    back = xp.adjoint(out1)
    turned = xp.matmul(back, g1)
    length = xp.real_part(xp.diagonal(turned, dim1=-2, dim2=-1))
    turned = turned - xp.matmul(back, out1 * xp.expand_dims(length, axis=-2))
    turned = xp.masked_fill(turned, xp.real_part(one) == 1, value=0)
    middle = xp.over_gaps(turned, xp.conj(gaps + one))
    return xp.matrix_solve(back, xp.matmul(middle + xp.diag_embed(g0), back))


@op(
    torch=None,
    n_outputs=2,
    linear=True,
    x=lambda xp, g0, g1, out0, out1: xp.eig_vjp(g0, g1, out0, out1),
)
def eig(xp: Any, x: Any) -> Any:
    """Eigenvalues and eigenvectors (columns of norm 1) of any square matrices.

    x: (..., n, n). Result: (..., n) and shape of x, both complex.
    """
    with failing("torch.linalg.eig: input tensor should not contain infs or NaNs."):
        values, vectors = xp.linalg.eig(x)
    dtype = "c8" if x.dtype in ("f4", "c8") else "c16"
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


@composite()
def svd_vjp(xp: Any, g0: Any, g1: Any, g2: Any, out0: Any, out1: Any, out2: Any) -> Any:
    """Gradient of svd, of the first k singular vectors where it gave all. Result: shape of x."""
    k = out1.shape[-1]
    u, gu = out0[..., :k], g0[..., :k]
    v, gv = xp.adjoint(out2[..., :k, :]), xp.adjoint(g2[..., :k, :])
    one = xp.diag_embed(xp.ones_like(out1))
    row, column = xp.expand_dims(out1, axis=-2), xp.expand_dims(out1, axis=-1)
    gaps = (row - column) * (row + column) + one
    skew_u, skew_v = (xp.matmul(xp.adjoint(a), b) for a, b in ((u, gu), (v, gv)))
    skew_u, skew_v = (s - xp.adjoint(s) for s in (skew_u, skew_v))
    off_u, off_v = (
        xp.over_gaps(xp.masked_fill(s, one == 1, value=0), gaps) for s in (skew_u, skew_v)
    )
    middle = off_u * row + column * off_v + xp.diag_embed(g1)
    if kind_of(u.dtype) == "c":
        middle = middle + xp.diag_embed(xp.diagonal(skew_u, dim1=-2, dim2=-1) / (out1 * 2))
    left = xp.matmul(u, middle)
    if u.shape[-2] > k:
        rest = gu / row
        left = left + rest - xp.matmul(u, xp.matmul(xp.adjoint(u), rest))
    found = xp.matmul(left, xp.adjoint(v))
    if v.shape[-2] > k:
        rest = xp.adjoint(gv / row)
        found = found + xp.matmul(u, rest - xp.matmul(xp.matmul(rest, v), xp.adjoint(v)))
    return found


@op(
    torch=None,
    n_outputs=3,
    linear=True,
    x=lambda xp, g0, g1, g2, out0, out1, out2: xp.svd_vjp(g0, g1, g2, out0, out1, out2),
)
def svd_factors(xp: Any, x: Any, *, full_matrices: bool = False) -> Any:
    """U, the singular values, largest first, and V^H, with x = U diag(S) V^H.

    x: (..., m, n), k = min(m, n). Result: (..., m, k), (..., k) real and (..., k, n); all m and n
    singular vectors where full.
    """
    with failing(_DIVERGED.format("svd")):
        u, s, vh = xp.linalg.svd(x, full_matrices=full_matrices)
    return u, s, vh


@composite()
def singular_values_vjp(xp: Any, g: Any, x: Any) -> Any:
    """Gradient of singular_values: U diag(g) V^H. Result: shape of x."""
    u, _, vh = xp.svd_factors(x)
    return xp.matmul(u * xp.expand_dims(g, axis=-2), vh)


@op(torch=None, linear=True, x=lambda xp, g, x: xp.singular_values_vjp(g, x))
def singular_values(xp: Any, x: Any) -> Any:
    """Singular values, largest first. x: (..., m, n). Result: (..., min(m, n)) real."""
    with failing(_DIVERGED.format("svd")):
        return xp.linalg.svd(x, compute_uv=False)


@composite()
def qr_vjp(xp: Any, g0: Any, g1: Any, out0: Any, out1: Any, *, mode: str) -> Any:
    """Gradient of qr_factors. Result: shape of its input.

    Errors: RuntimeError where Q or its whole basis is not unique.
    """
    q, r, gq, gr = out0, out1, g0, g1
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced')"
        )
    m, n = q.shape[-2], r.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols; "
            "use mode='reduced'"
        )
    wide, g_wide = r[..., m:], gr[..., m:]
    if m < n:
        gq = gq + xp.matmul(xp.matmul(q, wide), xp.adjoint(g_wide))
        r, gr = r[..., :m], gr[..., :m]
    upper = xp.triu(xp.matmul(gr, xp.adjoint(r)) - xp.matmul(xp.adjoint(q), gq))
    strict = xp.triu(upper, diagonal=1)
    level = xp.diag_embed(xp.real_part(xp.diagonal(upper, dim1=-2, dim2=-1)))
    back = xp.solve_right(gq + xp.matmul(q, strict + xp.adjoint(strict) + level), r)
    return xp.concat(back, xp.matmul(q, g_wide), axis=-1) if m < n else back


@op(
    torch=None,
    n_outputs=2,
    linear=True,
    x=lambda xp, g0, g1, out0, out1, mode: xp.qr_vjp(g0, g1, out0, out1, mode=mode),
)
def qr_factors(xp: Any, x: Any, *, mode: str = "reduced") -> Any:
    """Q of orthonormal columns and upper triangular R with x = Q R.

    x: (..., m, n), k = min(m, n). Result: (..., m, k) and (..., k, n); (..., m, m) and (..., m, n)
    for mode "complete"; an empty Q of shape (0,) for mode "r".
    """
    if mode == "r":
        return xp.empty((0,), x.dtype), xp.linalg.qr(x, "r")
    q, r = xp.linalg.qr(x, mode)
    return q, r


@op(torch=None, n_outputs=2, x=None)
def qr_reflectors(xp: Any, x: Any) -> Any:
    """R above the diagonal, Householder vectors below, and their factors, as LAPACK's geqrf.

    x: (..., m, n). Result: shape of x and (..., min(m, n)); no gradient.
    """
    packed, tau = xp.linalg.qr(x, "raw")
    return packed.swapaxes(-1, -2).copy(), tau
