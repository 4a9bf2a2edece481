"""LDL factors of symmetric matrices with Bunch and Kaufman's pivots, as LAPACK's sytrf and hetrf
of the lower triangle.

Whole batches go through each column together; what a matrix chooses there (a block of one row or
of two, an exchange) is chosen by masks, so that a device is not waited for.
Source: J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving symmetric
linear systems" (1977).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.ops.table import composite, op

Array = Any
ALPHA = (1 + 17**0.5) / 8


def _size(x: Array) -> Array:
    """LAPACK's |x|: of a complex number the sum of its parts' absolute values."""
    return abs(x.real) + abs(x.imag) if x.dtype.kind == "c" else abs(x)


def _conj(x: Array, hermitian: bool) -> Array:
    return x.conj() if hermitian else x


def _safe(xp: Any, x: Array) -> Array:
    return xp.where(x == 0, 1, x)


def _choice(xp: Any, a: Array, k: int) -> tuple[Array, Array, Array]:
    """Of column k of each matrix: the row to exchange, whether a block of two begins, whether
    the column is 0. a: (batch, n, n), whole. Result: (batch,) each.
    """
    rows, n = xp.arange(len(a)), a.shape[1]
    own = _size(a[:, k, k])
    if k == n - 1:
        return xp.full(len(a), k), xp.zeros(len(a), bool), own == 0
    below = _size(a[:, k + 1 :, k])
    best = k + 1 + xp.argmax(below, axis=1)
    column = below.max(axis=1)
    across = _size(a[rows, best, k:])
    across[rows, best - k] = 0
    row = across.max(axis=1)
    empty = xp.maximum(own, column) == 0
    stays = empty | (own >= ALPHA * column) | (own * row >= ALPHA * column * column)
    one = _size(a[rows, best, best]) >= ALPHA * row
    return xp.where(stays, k, best), ~stays & ~one, empty


def _exchanged(xp: Any, a: Array, first: Array, second: Array) -> Array:
    """a with two rows and columns exchanged. first, second: (batch,)."""
    rows = xp.arange(len(a))
    order = xp.broadcast_to(xp.arange(a.shape[1]), a.shape[:2]).copy()
    order[rows, first], order[rows, second] = second, first
    return a[rows[:, None, None], order[:, :, None], order[:, None, :]]


def _inverse_of_two(xp: Any, a: Array, b: Array, c: Array, d: Array) -> tuple[Array, ...]:
    """The inverse of [[a, b], [c, d]], scaled by c, which is the largest where it matters."""
    scale = _safe(xp, c)
    p, q = d / scale, a / scale
    s = b / scale
    divisor = _safe(xp, p * q - s) * scale
    return p / divisor, -s / divisor, -1 / divisor, q / divisor


def _column(xp: Any, a: Array, k: int, hermitian: bool, two: Array) -> tuple[Array, Array]:
    """The columns k and k + 1 of the factor, (batch, n, 2), and what is left of a after them; a
    block of one leaves column k + 1 as it was.
    """
    n = a.shape[1]
    d = a[:, k, k]
    left = a.copy()
    factor = xp.zeros((*a.shape[:2], 2), a.dtype)
    single = a[:, k + 1 :, k] / _safe(xp, d)[:, None]
    rest = a[:, k + 1 :, k + 1 :] - single[:, :, None] * _conj(a[:, None, k + 1 :, k], hermitian)
    left[:, k + 1 :, k + 1 :], factor[:, k + 1 :, 0] = rest, single
    factor[:, k, 0] = d.real if hermitian else d
    if k == n - 1:
        return factor, left
    pair = a[:, k + 2 :, k : k + 2]
    inverse = _inverse_of_two(xp, d, a[:, k, k + 1], a[:, k + 1, k], a[:, k + 1, k + 1])
    block = xp.stack(inverse, axis=1).reshape(-1, 2, 2)
    double = xp.matmul(pair, block)
    rest = xp.matmul(double, _conj(pair, hermitian).swapaxes(1, 2))
    choose = two[:, None, None]
    kept = a[:, k + 2 :, k + 2 :] - rest
    left[:, k + 2 :, k + 2 :] = xp.where(choose, kept, left[:, k + 2 :, k + 2 :])
    factor[:, k + 2 :] = xp.where(choose, double, factor[:, k + 2 :])
    last = a[:, k + 1, k + 1]
    factor[:, k + 1, 0] = xp.where(two, a[:, k + 1, k], factor[:, k + 1, 0])
    factor[:, k + 1, 1] = last.real if hermitian else last
    return factor, left


@composite()
def no_derivative(xp: Any, g: Any, *, name: str) -> Any:
    """Raises RuntimeError: `name` has no derivative, as in PyTorch. g: any shape."""
    raise RuntimeError(
        f"the derivative of {name} is not implemented (nor in PyTorch); expected a result that "
        "needs no gradient, e.g. of detach(); linalg.solve and linalg.eigh have one"
    )


@op(
    torch=None,
    n_outputs=3,
    differentiable=(0,),
    linear=True,
    x=lambda xp, g0: xp.no_derivative(g0, name="linalg.ldl_factor"),
)
def ldl_factors(xp: Any, x: Array, *, hermitian: bool) -> tuple[Array, Array, Array]:
    """L and D packed in one lower triangle, the row exchanges, and the first column that is 0.

    x: (..., n, n), its lower triangle. Result: shape of x; (..., n) int32 from 1, negative twice
    for a block of two; (...) int32, 0 where there is none. No derivative.
    """
    n, lead = x.shape[-1], x.shape[:-2]
    low = xp.tril(x.reshape(int(np.prod(lead)), n, n))
    below = xp.tril(low, -1)
    level = (low - below).real if hermitian else low - below
    a = below + level + _conj(below, hermitian).swapaxes(1, 2)
    batch = len(a)
    out = xp.zeros_like(a)
    pivots = xp.zeros((batch, n), "i4")
    info = xp.zeros(batch, "i4")
    second = xp.zeros(batch, bool)  # column k is the second one of a block
    for k in range(n):
        place, two, empty = _choice(xp, a, k)
        two = two & ~second
        place = xp.where(second, k, place)
        moved = _exchanged(xp, a, xp.where(two, k + 1, k), place)
        factor, left = _column(xp, moved, k, hermitian, two)
        chosen = xp.where(second[:, None], out[:, :, k], factor[:, :, 0])
        out[:, k:, k] = chosen[:, k:]
        entry = xp.where(two, -place - 1, place + 1).astype("i4")
        pivots[:, k] = xp.where(second, pivots[:, k], entry)
        info = xp.where(~second & empty & (info == 0), k + 1, info).astype("i4")
        if k + 1 < n:
            out[:, :, k + 1] = xp.where(two[:, None], factor[:, :, 1], out[:, :, k + 1])
            pivots[:, k + 1] = xp.where(two, entry, pivots[:, k + 1])
        a = xp.where(second[:, None, None], a, left)
        second = two
    return out.reshape(x.shape), pivots.reshape(*lead, n), info.reshape(lead)


def _swapped(xp: Any, b: Array, first: int, second: Array) -> None:
    """Exchange rows `first` and `second`, (batch,), of b in place."""
    rows = xp.arange(len(b))
    kept = b[:, first].copy()
    b[:, first] = b[rows, second]
    b[rows, second] = kept


@op(
    torch=None,
    linear=True,
    factors=lambda xp, g: xp.no_derivative(g, name="linalg.ldl_solve for LD"),
    pivots=None,
    x=lambda xp, g, factors, pivots, hermitian: (
        xp.ldl_solution(factors, pivots, g, hermitian=True)
        if hermitian
        else xp.conj(xp.ldl_solution(factors, pivots, xp.conj(g), hermitian=False))
    ),
)
def ldl_solution(xp: Any, factors: Array, pivots: Array, x: Array, *, hermitian: bool) -> Array:
    """The solution of A X = x from ldl_factors of A.

    factors: (..., n, n), pivots: (..., n) integers, x: (..., n, k), one batch. Result: shape of x.
    """
    n, width = x.shape[-2:]
    b = x.reshape(int(np.prod(x.shape[:-2])), n, width).copy()
    low = factors.reshape(len(b), n, n)
    p = pivots.reshape(len(b), n)
    to = abs(p.astype("i8")) - 1
    first = xp.zeros(p.shape, bool)  # the first row of a block of two
    second = xp.zeros(len(b), bool)
    for k in range(n):
        first[:, k] = (p[:, k] < 0) & ~second
        second = first[:, k]
    later = xp.zeros_like(first)
    later[:, 1:] = first[:, :-1]
    for k in range(n):
        _swapped(xp, b, k, xp.where(first[:, k] | later[:, k], k, to[:, k]))
        if k + 1 < n:  # a block's second row is exchanged before its first is used
            _swapped(xp, b, k + 1, xp.where(first[:, k], to[:, k], k + 1))
        column = low[:, :, k].copy()
        column[:, : k + 1] = 0
        if k + 1 < n:
            column[:, k + 1] = xp.where(first[:, k], 0, column[:, k + 1])
        b -= column[:, :, None] * b[:, k, None, :]
    b = _divided(xp, b, low, first, later, hermitian)
    for k in range(n - 1, -1, -1):
        column = _conj(low[:, :, k], hermitian).copy()
        column[:, : k + 1] = 0
        if k + 1 < n:
            column[:, k + 1] = xp.where(first[:, k], 0, column[:, k + 1])
        b[:, k] -= (column[:, :, None] * b).sum(axis=1)
        if k + 1 < n:
            _swapped(xp, b, k + 1, xp.where(first[:, k], to[:, k], k + 1))
        _swapped(xp, b, k, xp.where(first[:, k] | later[:, k], k, to[:, k]))
    return b.reshape(x.shape)


def _divided(xp: Any, b: Array, low: Array, first: Array, later: Array, hermitian: bool) -> Array:
    """b by the blocks of D. first, later: (batch, n), the rows of blocks of two."""
    d = xp.diagonal(low, axis1=1, axis2=2)
    out = b / _safe(xp, xp.where(first | later, 1, d))[:, :, None]
    if b.shape[1] > 1:
        below = xp.diagonal(low, offset=-1, axis1=1, axis2=2)
        parts = _inverse_of_two(xp, d[:, :-1], _conj(below, hermitian), below, d[:, 1:])
        p, q, r, s = (part[:, :, None] for part in parts)
        up, down = b[:, :-1], b[:, 1:]
        out[:, :-1] = xp.where(first[:, :-1, None], p * up + q * down, out[:, :-1])
        out[:, 1:] = xp.where(later[:, 1:, None], r * up + s * down, out[:, 1:])
    return out
