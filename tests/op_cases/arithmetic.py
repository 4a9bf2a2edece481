"""Rows of ops/arithmetic.py and ops/selection.py."""

from __future__ import annotations

import numpy as np

from op_cases import apart, case, integers, mask, normal, positive

TIES = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])

ROWS = {
    "add": [
        case(normal(3, 4), normal(4, seed=9), ref=np.add, complexes=True),
        case(normal(2, 1), normal(1, 3, seed=9), ref=np.add),
        case(mask(4), mask(4, seed=8), ref=np.logical_or),
    ],
    "subtract": case(normal(3, 4), normal(3, 1, seed=9), ref=np.subtract, complexes=True),
    "multiply": case(normal(3, 4), normal(4, seed=9), ref=np.multiply, complexes=True),
    "divide": [
        case(normal(3, 4), positive(4), ref=np.divide, complexes=True),
        case(integers(4), integers(4, low=1, seed=7), ref=lambda x, y: (x / y).astype("f4")),
    ],
    "floor_divide": [
        case(apart(3, 4), positive(4), ref=np.floor_divide),
        case(integers(6, low=-5), integers(6, low=1, seed=7), ref=np.floor_divide),
    ],
    "trunc_divide": [
        case(apart(3, 4), positive(4), ref=lambda x, y: np.trunc(x / y)),
        case(
            integers(6, low=-9), integers(6, low=2), ref=lambda x, y: np.trunc(x / y).astype("i8")
        ),
    ],
    "remainder": case(apart(3, 4), positive(4), ref=np.remainder),
    "fmod": case(apart(3, 4), positive(4), ref=np.fmod),
    "power": [
        case(positive(3, 4), normal(4), ref=np.power, complexes=True),
        case(normal(3), np.array(2.0), ref=np.power, constant=(1,)),
        case(integers(4), integers(4, high=4, seed=6), ref=np.power),
    ],
    "pow": [
        case(positive(3, 4), exponent=2.5, ref=lambda x, exponent: x**2.5, complexes=True),
        case(np.array([0.0, -1.5, 2.0]), exponent=2, ref=lambda x, exponent: x * x),
        case(normal(3), exponent=0, ref=lambda x, exponent: np.ones(3)),
    ],
    "atan2": case(normal(3, 4), normal(4, seed=9), ref=np.arctan2),
    "hypot": case(normal(3, 4), normal(4, seed=9), ref=np.hypot),
    "logaddexp": case(normal(3, 4), normal(4, seed=9), ref=np.logaddexp),
    "logaddexp2": case(normal(3, 4), normal(4, seed=9), ref=np.logaddexp2),
    "copysign": case(apart(3, 4), apart(4), ref=np.copysign),
    "xlogy": case(normal(3, 4), positive(4), ref=lambda x, y: x * np.log(y)),
    "where": case(mask(3, 4), normal(3, 1), normal(4, seed=9), ref=np.where, complexes=True),
    "masked_fill": case(
        normal(3, 4), mask(4), value=2.5, ref=lambda x, m, value: np.where(m, value, x)
    ),
    "masked_fill_tensor": case(
        normal(3, 4), mask(4), np.array(2.5), ref=lambda x, m, value: np.where(m, value, x)
    ),
    "maximum": case(apart(3, 4), apart(3, 4, seed=11) + 0.1, ref=np.maximum),
    "minimum": case(apart(3, 4), apart(3, 4, seed=11) + 0.1, ref=np.minimum),
    "fmax": case(apart(3, 4), apart(3, 4, seed=11) + 0.1, ref=np.fmax),
    "fmin": case(apart(3, 4), apart(3, 4, seed=11) + 0.1, ref=np.fmin),
    "clip_low": case(apart(3, 4), apart(4) + 0.1, ref=np.maximum),
    "clip_high": case(apart(3, 4), apart(4) + 0.1, ref=np.minimum),
    "outside": case(apart(3, 4), low=0, ref=lambda x, low: x < low),
    "clamp": [
        case(apart(3, 4), low=-1.0, high=1, ref=lambda x, low, high: np.clip(x, low, high)),
        case(apart(3, 4), high=1, ref=lambda x, high: np.minimum(x, high)),
        case(apart(3, 4), low=0, ref=lambda x, low: np.maximum(x, low)),
    ],
    "clip": case(apart(3, 4), np.array(-1.0), np.array(1.1), ref=np.clip),
    "lerp": case(normal(3), normal(3, seed=8), positive(3), ref=lambda x, y, w: x + w * (y - x)),
    "addcmul": case(
        normal(3, 2),
        normal(2, seed=8),
        normal(3, 1, seed=7),
        value=0.5,
        ref=lambda x, y, z, value: x + value * y * z,
    ),
    "addcdiv": case(
        normal(3, 2),
        normal(2, seed=8),
        positive(3, 1),
        value=0.5,
        ref=lambda x, y, z, value: x + value * y / z,
    ),
}
