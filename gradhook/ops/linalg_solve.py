"""Systems of equations, inverses and determinants of square matrices; matrix exponentials."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np

from gradhook.ops.axes import broadcast
from gradhook.ops.linalg import kind_of
from gradhook.ops.linalg_errors import failing
from gradhook.ops.table import composite, op


@op(
    torch=None,
    a=lambda xp, g, a, out: (
        -xp.matmul(xp.matrix_solve(xp.matrix_transpose(a), g), xp.matrix_transpose(out))
    ),
    b=lambda xp, g, a: xp.matrix_solve(xp.matrix_transpose(a), g),
)
def matrix_solve(xp: Any, a: Any, b: Any) -> Any:
    """The x of a x = b. a: (..., n, n), b: (..., n, k), broadcasting. Result: (..., n, k).

    Errors: LinAlgError for a singular a on NumPy; CuPy does not look.
    """
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    if a.size == 0 or b.size == 0:
        return xp.zeros((*lead, *b.shape[-2:]), b.dtype)
    a = xp.broadcast_to(a, (*lead, *a.shape[-2:]))
    with failing("solve: the input matrix is singular"):
        return xp.linalg.solve(a, xp.broadcast_to(b, (*lead, *b.shape[-2:])))


@composite()
def solve_triangle(
    xp: Any, a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """The x of a x = b (x a = b where not left), of one triangle of a only; its diagonal 1 where
    unitriangular. a: (..., n, n), b: (..., n, k). Result: shape of b, batches broadcast.
    """
    part = xp.triu if upper else xp.tril
    if unitriangular:
        one = xp.diag_embed(xp.ones_like(xp.diagonal(a, dim1=-2, dim2=-1)))
        a = part(a, diagonal=1 if upper else -1) + one
    else:
        a = part(a)
    if left:
        return xp.matrix_solve(a, b)
    return xp.matrix_transpose(xp.matrix_solve(xp.matrix_transpose(a), xp.matrix_transpose(b)))


@op(
    torch=None,
    x=lambda xp, g, out: (
        -xp.matmul(xp.matmul(xp.matrix_transpose(out), g), xp.matrix_transpose(out))
    ),
)
def inv(xp: Any, x: Any) -> Any:
    """Inverse of square matrices. x: (..., n, n). Result: shape of x.

    Errors: LinAlgError for a singular x on NumPy; CuPy does not look.
    """
    with failing("inv: the input matrix is singular"):
        return x.copy() if x.size == 0 else xp.linalg.inv(x)


@op(torch=None, linear=True, x=lambda xp, g: g)
def nudged(xp: Any, x: Any) -> Any:
    """x where its matrices are regular, else its small singular values raised to eps^(1/3) times
    the largest, so that limits of second order can be taken. x: (..., n, n). Result: shape of x, a
    copy.
    """
    if x.size == 0:
        return x.copy()
    eps = float(np.finfo(x.dtype).eps)
    with failing("det: the input matrix contained non-finite values"):
        u, s, vh = xp.linalg.svd(x)
    largest = s.max(axis=-1, keepdims=True)
    floor = eps ** (1 / 3) * xp.where(largest > 0, largest, 1)
    raised = xp.maximum(s, floor) - s
    singular = s.min(axis=-1, keepdims=True) <= eps * x.shape[-1] * largest
    return xp.where(singular[..., None], x + xp.matmul(u * raised[..., None, :], vh), x)


@composite()
def cofactor_curvature(xp: Any, g: Any, h: Any, x: Any) -> Any:
    """Gradient of cofactor_vjp(h, x) for x: the third derivative of det, of singular x to a third
    of the digits. With B = x^-1: (tr(Bg) tr(Bh) - tr(BgBh)) B - tr(Bh) BgB - tr(Bg) BhB + BgBhB +
    BhBgB, transposed, times det(x). Result: shape of x.
    """
    near = xp.nudged(x)
    back = xp.inv(near)
    a, b = xp.matmul(back, g), xp.matmul(back, h)

    def trace(m: Any) -> Any:
        total = xp.sum(xp.diagonal(m, dim1=-2, dim2=-1), axis=-1, keepdims=True)
        return xp.expand_dims(total, axis=-1)

    ab, ba = xp.matmul(a, b), xp.matmul(b, a)
    inner = ab + ba - trace(b) * a - trace(a) * b
    scaled = xp.matmul(inner, back) + (trace(a) * trace(b) - trace(ab)) * back
    size = xp.expand_dims(xp.expand_dims(xp.det(near), axis=-1), axis=-1)
    return size * xp.matrix_transpose(scaled)


@op(
    torch=None,
    h=lambda xp, g, x: xp.cofactor_vjp(g, x),
    x=lambda xp, g, h, x: xp.cofactor_curvature(g, h, x),
)
def cofactor_vjp(xp: Any, h: Any, x: Any) -> Any:
    """Gradient of cofactor: the second derivative of det in direction h, which is symmetric; exact,
    also of singular x. h, x: (..., n, n). Result: shape of x.

    In the basis of x = U S V^H the change m = U^H h V changes cofactor (i, i) by the sum of
    m_jj p_ij and (i, j) by -m_ji p_ij, where p_ij is the product of the singular values but
    the i-th and j-th.
    """
    if x.shape[-1] == 0:
        return x.copy()
    u, s, vh, sign = _svd_and_sign(xp, x)
    pairs = _products_without_pairs(xp, s)
    m = xp.matmul(u.conj().swapaxes(-1, -2), xp.matmul(h, vh.conj().swapaxes(-1, -2)))
    middle = -m.swapaxes(-1, -2) * pairs
    at = np.arange(x.shape[-1])
    middle[..., at, at] = xp.matmul(pairs, m[..., at, at][..., None])[..., 0]
    return xp.matmul(u.conj() * sign[..., None, None], xp.matmul(middle, vh.conj()))


def _svd_and_sign(xp: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """The singular value decomposition and det(U) det(V^H), of modulus 1."""
    with failing("det: the input matrix contained non-finite values"):
        u, s, vh = xp.linalg.svd(x)
    return u, s, vh, xp.linalg.det(u) * xp.linalg.det(vh)


def _products_without(xp: Any, s: Any) -> Any:
    """Of each entry of s (..., n), the product of the others, without a division."""
    ones = xp.ones_like(s[..., :1])
    before = xp.cumprod(xp.concatenate([ones, s[..., :-1]], axis=-1), axis=-1)
    after = xp.cumprod(xp.concatenate([ones, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return before * after


def _products_without_pairs(xp: Any, s: Any) -> Any:
    """Of each two entries of s (..., n), the product of the others; 0 on the diagonal."""
    one = np.eye(s.shape[-1], dtype=bool)
    others = xp.where(xp.asarray(one), 1, s[..., None, :])  # row i: s without its i-th entry
    return xp.where(xp.asarray(one), 0, _products_without(xp, others))


@op(torch=None, x=lambda xp, g, x: xp.cofactor_vjp(g, x))
def cofactor(xp: Any, x: Any) -> Any:
    """det(x) x^-T, also of singular x: the gradient of det. x: (..., n, n). Result: shape of x."""
    if x.shape[-1] == 0:
        return x.copy()
    u, s, vh, sign = _svd_and_sign(xp, x)
    scaled = u.conj() * _products_without(xp, s)[..., None, :] * sign[..., None, None]
    return xp.matmul(scaled, vh.conj())


@composite()
def det_vjp(xp: Any, g: Any, x: Any) -> Any:
    """Gradient of det: g times the cofactors, also of singular x. Result: shape of x."""
    factors = xp.ones_like(x) if x.shape[-1] == 1 else xp.cofactor(x)
    return xp.expand_dims(xp.expand_dims(g, axis=-1), axis=-1) * factors


@op(torch=None, x=lambda xp, g, x: xp.det_vjp(g, x))
def det(xp: Any, x: Any) -> Any:
    """Determinants of square matrices. x: (..., n, n). Result: (...), 1 for n = 0."""
    if x.shape[-1] == 0:
        return xp.ones(x.shape[:-2], x.dtype)
    return xp.linalg.det(x)


@composite()
def slogdet_vjp(xp: Any, g0: Any, g1: Any, x: Any, out0: Any) -> Any:
    """Gradient of slogdet: (g1 - i Im(conj(g0) sign)) x^-H. Result: shape and dtype of x."""
    scale = g1
    if kind_of(x.dtype) == "c":
        turned = xp.imag(xp.conj(g0) * out0)
        scale = xp.complex(g1, -turned)
    return xp.expand_dims(xp.expand_dims(scale, axis=-1), axis=-1) * xp.adjoint(xp.inv(x))


@op(
    torch=None,
    n_outputs=2,
    linear=True,
    x=lambda xp, g0, g1, x, out0: xp.slogdet_vjp(g0, g1, x, out0),
)
def slogdet_parts(xp: Any, x: Any) -> Any:
    """Sign (of modulus 1, 0 for singular x) and log of the absolute value of the determinant.

    x: (..., n, n). Result: (...) of the dtype of x and (...) real.
    """
    real = x.dtype.type(0).real.dtype
    if x.shape[-1] == 0:
        return xp.ones(x.shape[:-2], x.dtype), xp.zeros(x.shape[:-2], real)
    sign, size = xp.linalg.slogdet(x)
    return sign, size.astype(real, copy=False)


# N. J. Higham, "The scaling and squaring method for the matrix exponential revisited", SIAM J.
# Matrix Anal. Appl. 26 (2005), order 13.
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_RADIUS = 5.371920351148152


@composite()
def matrix_exp_vjp(xp: Any, g: Any, x: Any) -> Any:
    """Gradient of matrix_exp: the upper right block of exp([[x^T, g], [0, x^T]]).

    Result: shape of x.
    """
    n = x.shape[-1]
    turned = xp.matrix_transpose(x)
    upper = xp.concat(turned, g, axis=-1)
    lower = xp.concat(xp.zeros_like(g), turned, axis=-1)
    return xp.matrix_exp(xp.concat(upper, lower, axis=-2))[..., :n, n:]


@op(torch=None, x=lambda xp, g, x: xp.matrix_exp_vjp(g, x))
def matrix_exp(xp: Any, x: Any) -> Any:
    """Exponential of square matrices, by scaling and squaring. x: (..., n, n). Result: shape of x.

    Reads one number of x on the host: how often the largest matrix of the batch is halved.
    """
    if x.size == 0:
        return x.copy()
    largest = float(abs(x).sum(axis=-2).max())
    halvings = ceil(log2(largest / _RADIUS)) if _RADIUS < largest < float("inf") else 0
    a = x / 2**halvings
    b = [c / _PADE[0] for c in _PADE]
    one = xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    a2 = xp.matmul(a, a)
    a4 = xp.matmul(a2, a2)
    a6 = xp.matmul(a4, a2)
    odd = xp.matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = xp.matmul(a, odd + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = xp.matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    even = even + b[6] * a6 + b[4] * a4 + b[2] * a2 + one
    found = xp.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        found = xp.matmul(found, found)
    return found
