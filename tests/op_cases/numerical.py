"""Rows of ops/numerical.py, bessel.py and of mode in order.py."""

from __future__ import annotations

import numpy as np
import scipy.special

from op_cases import case, integers, normal, positive

X = normal(3, 4)
WIDE = np.array([-11.5, -8.25, -3.0, -0.2, 0.3, 2.5, 7.5, 9.0, 30.0])
FEW = np.array([[2.0, 1.0, 2.0, 5.0], [3.0, 3.0, 7.0, 7.0]])


def most(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Of FEW along its last dimension."""
    return np.array([2.0, 3.0]), np.array([2, 1])


def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mantissa, exponent = np.frexp(x)
    return mantissa, exponent.astype("i4")


ROWS = {
    "trapezoid": [
        case(X, ref=np.trapezoid, complexes=True),
        case(X, dx=0.5, axis=0, ref=np.trapezoid),
        case(X, normal(4, seed=7), ref=np.trapezoid),
        case(
            normal(2, 3, 4),
            normal(3, 1, seed=7),
            axis=1,
            ref=lambda y, x, axis: np.trapezoid(y, x[None] + np.zeros(y.shape), axis=1),
        ),
        case(normal(3, 1), ref=np.trapezoid),
    ],
    "cumulative_trapezoid": [
        case(X, dx=2, axis=0, ref=lambda y, dx, axis: (y[1:] + y[:-1]).cumsum(0)),
        case(
            X,
            normal(4, seed=7),
            ref=lambda y, x: ((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x)).cumsum(1),
            complexes=True,
        ),
    ],
    "renorm": [
        case(
            X,
            p=2,
            axis=0,
            maxnorm=1.0,
            ref=lambda x, p, axis, maxnorm: (
                x / np.array([[1], [np.linalg.norm(x[1]) + 1e-7], [np.linalg.norm(x[2]) + 1e-7]])
            ),
            complexes=True,
        ),
        case(X, p=1, axis=1, maxnorm=100.0, ref=lambda x, p, axis, maxnorm: x),
    ],
    "vander": [
        case(normal(3), ref=np.vander, complexes=True),
        case(normal(3), N=5, increasing=True, ref=np.vander),
        case(integers(3), N=2, ref=np.vander),
        case(normal(3), N=0, ref=np.vander),
    ],
    "log_ndtr": case(np.append(WIDE, -40.0), ref=scipy.special.log_ndtr),
    "xlog1py": [
        case(X, positive(4), ref=scipy.special.xlog1py),
        case(np.array([0.0, 0.0]), np.array([-0.5, 2.0]), ref=scipy.special.xlog1py,
             constant=(1,)),
    ],
    "frexp": [
        case(np.array([3.0, -0.1, 0.7]), ref=split),
        case(np.array([0.0, 1e300, 0.5, -1e-300]), ref=split, constant=(0,)),
    ],
    "mode": case(FEW, axis=1, ref=most, constant=(0,)),
    "i0": case(WIDE, ref=scipy.special.i0, tolerance=10.0),
    "i0e": case(WIDE, ref=scipy.special.i0e),
    "i1": case(np.append(WIDE[1:8], 0.0), ref=scipy.special.i1, tolerance=1e-3),
    "i1e": case(np.append(WIDE, 0.0), ref=scipy.special.i1e),
}  # fmt: skip
