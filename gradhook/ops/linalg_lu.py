"""LU factors with row exchanges, and the pseudoinverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.ops.linalg_errors import failing
from gradhook.ops.table import composite, op


@composite()
def lu_lower(xp: Any, x: Any) -> Any:
    """The unit lower triangular factor packed in x. x: (..., m, n). Result: (..., m, min(m, n))."""
    k = min(x.shape[-2:])
    part = xp.tril(x[..., :k], diagonal=-1)
    one = xp.diag_embed(xp.ones_like(xp.diagonal(part, dim1=-2, dim2=-1)))
    if x.shape[-2] > k:
        one = xp.concat(one, xp.zeros_like(part[..., k:, :]), axis=-2)
    return part + one


@composite()
def lu_upper(xp: Any, x: Any) -> Any:
    """The upper triangular factor packed in x. x: (..., m, n). Result: (..., min(m, n), n)."""
    return xp.triu(x[..., : min(x.shape[-2:]), :])


@composite()
def lu_vjp(xp: Any, g: Any, packed: Any, inverse: Any) -> Any:
    """Gradient of lu_factors for its first result. Result: shape of packed."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    square, g_square = packed[..., :k, :k], g[..., :k, :k]
    turn = xp.adjoint
    lower_t, upper_t = turn(xp.lu_lower(square)), turn(xp.triu(square))
    g_lower, g_upper = xp.tril(g_square, diagonal=-1), xp.triu(g_square)
    rest: tuple[Any, ...] = ()
    if m > n:  # rows below: L2 = Y U^-1
        below = turn(xp.matrix_solve(turn(upper_t), turn(g[..., k:, :])))
        g_upper = g_upper - xp.triu(xp.matmul(turn(packed[..., k:, :]), below))
        rest = (below,)
    if n > m:  # columns to the right: U2 = L^-1 Y
        right = xp.matrix_solve(lower_t, g[..., :, k:])
        g_lower = g_lower - xp.tril(xp.matmul(right, turn(packed[..., :, k:])), diagonal=-1)
        rest = (right,)
    middle = xp.tril(xp.matmul(lower_t, g_lower), diagonal=-1)
    middle = middle + xp.triu(xp.matmul(g_upper, upper_t))
    found = xp.matrix_solve(lower_t, turn(xp.matrix_solve(turn(upper_t), turn(middle))))
    if rest:
        found = xp.concat(found, *rest, axis=-2 if m > n else -1)
    index = xp.broadcast_to(xp.expand_dims(inverse, axis=-1), shape=tuple(packed.shape))
    return xp.gather(found, index, axis=-2)


@op(
    torch=None,
    n_outputs=4,
    differentiable=(0,),
    linear=True,
    x=lambda xp, g0, out0, out3: xp.lu_vjp(g0, out0, out3),
)
def lu_factors(xp: Any, x: Any, *, pivot: bool = True) -> Any:
    """L and U packed in one matrix, the row exchanges (from 1, as LAPACK), the permutation p with
    x[p] = L U, and its inverse.

    x: (..., m, n). Result: shape of x, (..., min(m, n)) int32, twice (..., m) int64.
    """
    m, n = x.shape[-2:]
    k, lead = min(m, n), x.shape[:-2]
    a = x.reshape(int(np.prod(lead)), m, n).copy()
    rows = xp.arange(len(a))
    order = xp.broadcast_to(xp.arange(m), (len(a), m)).copy()
    pivots = xp.broadcast_to(xp.arange(1, k + 1, dtype="i4"), (len(a), k)).copy()
    for j in range(k):
        if pivot:
            column = a[:, j:, j]
            p = j + xp.argmax(abs(column.real) + abs(column.imag), axis=1)
            pivots[:, j] = p + 1
            for moved in (a, order):
                chosen = moved[rows, p].copy()
                moved[rows, p] = moved[:, j]
                moved[:, j] = chosen
        head = a[:, j, j]
        a[:, j + 1 :, j] /= xp.where(head == 0, 1, head)[:, None]
        a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
    inverse = xp.argsort(order, axis=1)
    return (
        a.reshape(x.shape),
        pivots.reshape(*lead, k),
        order.reshape(*lead, m),
        inverse.reshape(*lead, m),
    )


@op(torch=None, x=None)
def permutation_of_pivots(xp: Any, x: Any, *, n: int) -> Any:
    """The permutation that row exchanges (from 1) make of n rows. x: (..., k) integers.

    Result: (..., n) int64.
    """
    lead = x.shape[:-1]
    exchanges = x.reshape(int(np.prod(lead)), x.shape[-1]).astype("i8") - 1
    order = xp.broadcast_to(xp.arange(n), (len(exchanges), n)).copy()
    rows = xp.arange(len(exchanges))
    for j in range(x.shape[-1]):
        chosen = order[rows, exchanges[:, j]].copy()
        order[rows, exchanges[:, j]] = order[:, j]
        order[:, j] = chosen
    return order.reshape(*lead, n)


@composite()
def pseudo_inverse_vjp(xp: Any, g: Any, x: Any, out: Any) -> Any:
    """Gradient of pseudo_inverse. Source: G. H. Golub, V. Pereyra (1973). Result: shape of x."""
    p, ph, gh = out, xp.adjoint(out), xp.adjoint(g)
    right = xp.matmul(gh, xp.matmul(p, ph))
    left = xp.matmul(xp.matmul(ph, p), gh)
    first = xp.matmul(ph, xp.matmul(g, ph))
    second = right - xp.matmul(x, xp.matmul(p, right))
    third = left - xp.matmul(xp.matmul(left, p), x)
    return second + third - first


@op(torch=None, linear=True, x=lambda xp, g, x, out: xp.pseudo_inverse_vjp(g, x, out))
def pseudo_inverse(
    xp: Any, x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """Moore-Penrose inverse; singular values up to max(atol, rtol * the largest) count as 0.

    x: (..., m, n). Result: (..., n, m). atol, rtol: numbers or arrays of the batch's shape; rtol
    is max(m, n) eps without one where atol is 0.
    """
    if x.size == 0:
        return xp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    atol = xp.asarray(0.0 if atol is None else atol)
    if rtol is None:
        rtol = (atol <= 0) * (max(x.shape[-2:]) * float(np.finfo(x.dtype).eps))
    with failing("linalg.pinv: the input matrix contained non-finite values"):
        if hermitian:
            values, u = xp.linalg.eigh(x)
            v = u
        else:
            u, values, vh = xp.linalg.svd(x, full_matrices=False)
            v = vh.conj().swapaxes(-1, -2)
    size = abs(values)
    limit = xp.asarray(rtol)[..., None] * size.max(axis=-1, keepdims=True)
    limit = xp.maximum(atol[..., None], limit)
    kept = size > limit
    back = xp.where(kept, 1 / xp.where(kept, values, 1), 0).astype(values.dtype, copy=False)
    return xp.matmul(v * back[..., None, :], u.conj().swapaxes(-1, -2))
