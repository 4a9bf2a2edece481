"""Rows of ops/linalg_factor.py, linalg_lu.py and linalg_solve.py."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradhook.autograd.record import ops
from op_cases import case as any_case
from op_cases import integers, normal

case = partial(any_case)
A, B = normal(2, 3, 3), normal(3, 2, seed=8)
POSITIVE = A @ A.swapaxes(-1, -2) + np.eye(3)
HERMITIAN = A + A.swapaxes(-1, -2)
TALL, WIDE, ONE = normal(2, 4, 3, seed=4), normal(2, 3, seed=5), normal(1, 1)
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
SINGULAR3 = np.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.3, 1.0, 2.0]])
PIVOTS = np.array([[2, 2, 3], [3, 3, 3]], "i4")


def hermitian(x):
    """Twice the Hermitian part."""
    return (ops.add(x, ops.adjoint(x)),)


def half_hermitian(x):
    """The Hermitian part."""
    return (ops.multiply(ops.add(x, ops.adjoint(x)), 0.5),)


def sizes(found):
    """Values, and the absolute values of vectors."""
    return tuple(ops.absolute(f) for f in found)


def svd_sizes(found):
    """Singular values, and what is unique of the vectors."""
    u, s, vh = found
    k = s.shape[-1]
    return (s, ops.absolute(u[..., :k]), ops.matmul(u[..., :1], vh[..., :1, :]))


def first(found):
    """The first result alone."""
    return found[0]


def lu_by_hand(x, pivot=True):
    """Row by row, one matrix."""
    packed, order = x.copy(), list(range(len(x)))
    exchanges = []
    for j in range(min(x.shape)):
        p = j + int(np.argmax(abs(packed[j:, j]))) if pivot else j
        packed[[j, p]], exchanges = packed[[p, j]], [*exchanges, p + 1]
        order[j], order[p] = order[p], order[j]
        for i in range(j + 1, len(x)):
            packed[i, j] /= packed[j, j]
            packed[i, j + 1 :] -= packed[i, j] * packed[j, j + 1 :]
    return packed, np.array(exchanges, "i4"), np.array(order), np.argsort(order)


def exchanged(x, n):
    """The order of n rows after exchanges."""
    found = np.tile(np.arange(n), (len(x), 1))
    for row, pivots in zip(found, x - 1, strict=True):
        for j, p in enumerate(pivots):
            row[j], row[p] = row[p], row[j]
    return found


def series(x):
    """exp of matrices by 40 terms."""
    found = term = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for k in range(1, 40):
        term = term @ x / k
        found = found + term
    return found


def solve_triangle(a, b, upper, left=True, unitriangular=False):
    """By the inverse of the triangle."""
    part = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        part = part - part * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.linalg.inv(part) @ b if left else b @ np.linalg.inv(part)


def cofactors(x):
    """By minors, one matrix."""
    minors = [
        [np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(3)] for i in range(3)
    ]
    return np.array(minors) * (-1.0) ** np.add.outer(range(3), range(3))


def cofactors_change(h, x):
    """The derivative of the minors, which are quadratic: a central difference is exact."""
    return (cofactors(x + h) - cofactors(x - h)) / 2


ROWS = {
    "matrix_solve": [
        case(A, B, ref=lambda a, b: np.linalg.inv(a) @ b, complexes=True),
        case(np.zeros((0, 0)), np.zeros((0, 2)), ref=lambda a, b: b),
    ],
    "solve_triangle": [
        case(POSITIVE, B, upper=False, complexes=True, ref=solve_triangle),
        case(POSITIVE, B.mT, upper=True, left=False, unitriangular=True, ref=solve_triangle),
    ],
    "lu_upper": case(TALL, ref=lambda x: np.triu(x[:, :3]), complexes=True),
    "inv": case(A, ref=lambda x: np.linalg.solve(x, np.eye(3)), complexes=True),
    "nudged": case(A, ref=lambda x: x, complexes=True),
    "cofactor": [
        case(A[0], ref=cofactors, complexes=True),
        case(SINGULAR3, ref=cofactors, second=False),  # regular x only, see cofactor_curvature
        case(np.zeros((3, 3)), ref=cofactors, second=False),
    ],
    "cofactor_vjp": [
        case(A[1], A[0], ref=cofactors_change, complexes=True),
        case(A[1], SINGULAR3, ref=cofactors_change, constant=(1,)),
        case(A[1], np.zeros((3, 3)), ref=cofactors_change, constant=(1,)),
    ],
    "det": [
        case(A, ref=np.linalg.det, complexes=True),
        case(SINGULAR, ref=np.linalg.det),
        case(ONE, ref=np.linalg.det),
        case(np.zeros((2, 0, 0)), ref=lambda x: np.ones(2)),
    ],
    "slogdet_parts": case(A, ref=lambda x: tuple(np.linalg.slogdet(x)), complexes=True),
    "matrix_exp": [
        case(A, ref=series, complexes=True),
        case(3 * A[0], ref=lambda x: np.linalg.matrix_power(series(x / 8), 8), tolerance=1e-3),
    ],
    "cholesky": case(POSITIVE, before=half_hermitian, ref=np.linalg.cholesky),
    "eigh": [
        case(HERMITIAN, before=hermitian, after=sizes, complexes=True),
        case(HERMITIAN, UPLO="U", before=hermitian, after=sizes),
    ],
    "eigvalsh": case(
        HERMITIAN, before=hermitian, complexes=True, ref=lambda x: np.linalg.eigh(x)[0]
    ),
    "eig": case(A, after=sizes, complexes=True),
    "svd_factors": [
        case(A, after=svd_sizes, complexes=True),
        case(TALL, after=svd_sizes, complexes=True),
        case(WIDE, after=svd_sizes, full_matrices=True),
    ],
    "singular_values": case(
        TALL, complexes=True, ref=lambda x: np.linalg.svd(x, full_matrices=False)[1]
    ),
    "qr_factors": [
        case(A, complexes=True),
        case(TALL, complexes=True),
        case(WIDE, mode="complete", complexes=True),
    ],
    "qr_reflectors": case(TALL),
    "lu_factors": [
        case(A[0], after=first, ref=lu_by_hand, complexes=True),
        case(TALL, after=first, complexes=True),
        case(WIDE, after=first, ref=lu_by_hand, complexes=True),
        case(A[0], pivot=False, after=first, ref=lu_by_hand),
    ],
    "permutation_of_pivots": [
        any_case(PIVOTS, n=4, ref=exchanged),
        any_case(integers(0, 2).astype("i4"), n=2, ref=exchanged),
    ],
    "pseudo_inverse": [
        case(TALL, complexes=True, ref=lambda x: np.linalg.inv(x.mT @ x) @ x.mT),
        case(WIDE, complexes=True, ref=lambda x: x.T @ np.linalg.inv(x @ x.T)),
        case(HERMITIAN, hermitian=True, before=hermitian, complexes=True),
        case(np.diag([2.0, 0.0]), atol=0.1, constant=(0,), ref=lambda x, atol: np.diag([0.5, 0.0])),
    ],
}
