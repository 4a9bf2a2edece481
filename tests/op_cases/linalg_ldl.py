"""Rows of ops/linalg_ldl.py: the factors are put together again, the solution is NumPy's."""

from __future__ import annotations

import numpy as np

from op_cases import case, normal

A = normal(3, 5, 5)
A[0, :3, :3] = 0
A = A + A.swapaxes(1, 2)
LOW = np.array([[2.0, 0, 0], [0.5, 3.0, 0], [0.25, -0.5, -1.5]])
WHOLE = (np.tril(LOW, -1) + np.eye(3)) @ np.diag(np.diag(LOW))
WHOLE = WHOLE @ (np.tril(LOW, -1) + np.eye(3)).T
PIVOTS = np.array([1, 2, 3], np.int32)


def solved(low, pivots, b, *, hermitian):
    return np.linalg.solve(WHOLE, b)


ROWS = {
    "ldl_factors": [
        case(A, hermitian=False, constant=(0,)),
        case(
            WHOLE, hermitian=False, constant=(0,),
            ref=lambda x, hermitian: (LOW, PIVOTS, np.zeros((), np.int32)),
        ),
    ],
    "ldl_solution": case(
        LOW, PIVOTS, normal(3, 2), hermitian=False, ref=solved, constant=(0,), complexes=False
    ),
}  # fmt: skip
