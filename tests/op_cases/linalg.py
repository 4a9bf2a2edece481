"""Rows of ops/linalg.py and einsum.py."""

from __future__ import annotations

import numpy as np

from op_cases import case, normal

A, B = normal(2, 3), normal(3, 4, seed=8)


def einsum(*operands, equation):
    return np.einsum(equation, *operands)


def sums(equation, *operands, **options):
    return case(*operands, equation=equation, ref=einsum, **options)


ROWS = {
    "matmul": [
        case(A, B, ref=np.matmul, complexes=True),
        case(normal(3), normal(3, seed=8), ref=np.matmul),
        case(A, normal(3, seed=8), ref=np.matmul),
        case(normal(2), A, ref=np.matmul),
        case(normal(2, 2, 3), B, ref=np.matmul),
        case(normal(3), normal(2, 3, 2), ref=np.matmul),
        case(normal(2, 2, 3), normal(3, seed=8), ref=np.matmul),
        case(normal(2, 1, 2, 3), normal(2, 3, 1, seed=8), ref=np.matmul),
    ],
    "matmul_left": [
        case(normal(2, 4), B, shape=(2, 3), ref=lambda g, y, shape: g @ y.T, complexes=True),
        case(
            normal(2, 4),
            normal(2, 3, 4),
            shape=(3,),
            ref=lambda g, y, shape: (y @ g[..., None])[..., 0],
        ),
        case(normal(2), normal(3), shape=(2, 3), ref=lambda g, y, shape: np.outer(g, y)),
        case(np.array(2.0), normal(3), shape=(3,), ref=lambda g, y, shape: g * y),
    ],
    "matmul_right": [
        case(A, normal(2, 4), shape=(3, 4), ref=lambda x, g, shape: x.T @ g, complexes=True),
        case(
            normal(2, 2, 3),
            normal(2, 2, 4),
            shape=(3, 4),
            ref=lambda x, g, shape: np.einsum("abi,abj->ij", x, g),
        ),
        case(
            normal(3),
            normal(2, 4),
            shape=(2, 3, 4),
            ref=lambda x, g, shape: np.einsum("i,bj->bij", x, g),
        ),
        case(A, normal(2), shape=(3,), ref=lambda x, g, shape: x.T @ g),
        case(normal(3), np.array(2.0), shape=(3,), ref=lambda x, g, shape: x * g),
    ],
    "mm": case(A, B, ref=np.matmul, complexes=True),
    "bmm": case(normal(2, 2, 3), normal(2, 3, 2, seed=8), ref=np.matmul, complexes=True),
    "mv": case(A, normal(3, seed=8), ref=np.matmul, complexes=True),
    "dot": case(normal(3), normal(3, seed=8), ref=np.dot, complexes=True),
    "vdot": case(normal(3), normal(3, seed=8), ref=np.vdot, complexes=True),
    "outer": case(normal(2), normal(3, seed=8), ref=np.outer),
    "trace": case(normal(3, 4), ref=np.trace),
    "diag_embed": case(normal(2, 3), ref=lambda x: np.eye(3) * x[:, None]),
    "diag": [
        case(normal(3), diagonal=1, ref=lambda x, diagonal: np.diag(x, 1)),
        case(normal(3, 4), ref=np.diag),
    ],
    "addmm": case(
        normal(4), A, B, beta=2, alpha=0.5, ref=lambda x, a, b, beta, alpha: 2 * x + 0.5 * (a @ b)
    ),
    "addmv": case(normal(2), A, normal(3, seed=8), ref=lambda x, a, b: x + a @ b),
    "addr": case(A, normal(2), normal(3, seed=8), ref=lambda x, a, b: x + np.outer(a, b)),
    "baddbmm": case(
        normal(2),
        normal(2, 2, 3),
        normal(2, 3, 2, seed=8),
        alpha=3,
        ref=lambda x, a, b, alpha: x + 3 * (a @ b),
    ),
    "addbmm": case(
        normal(2), normal(2, 2, 3), normal(2, 3, 2, seed=8), ref=lambda x, a, b: x + (a @ b).sum(0)
    ),
    "einsum": [
        sums("ij,jk->ik", A, B, complexes=True),
        sums("ij,jk", A, B),
        sums("ij->ji", A),
        sums("ii->i", normal(3, 3)),
        sums("ii", normal(3, 3)),
        sums("i,j->ij", normal(2), normal(3)),
        sums("bij,bjk->bik", normal(2, 2, 3), normal(2, 3, 2)),
        sums("...ij,...jk->...ik", normal(2, 2, 3), normal(3, 2)),
        sums("ij,jk,kl->il", A, B, normal(4, 2)),
        sums("ij,ij->", A, A + 1),
        sums("ijk->k", normal(2, 3, 2)),
        sums("iij,j->i", normal(2, 2, 3), normal(3)),
    ],
    "tensordot": case(
        normal(2, 3, 2),
        normal(3, 2, 2, seed=8),
        axes=([1, 0], [0, 1]),
        ref=lambda x, y, axes: np.tensordot(x, y, axes),
    ),
}
