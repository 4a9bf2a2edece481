"""Rows of ops/elementwise.py, exponential.py, trigonometric.py, special.py, activation.py,
complex.py and comparison.py.
"""

from __future__ import annotations

import numpy as np
import scipy.special

from op_cases import apart, case, inside, integers, mask, normal, positive


def along(function, x, axis, **attributes):
    return function(x, axis=axis, **attributes)


def parts(*shape: int) -> np.ndarray:
    return normal(*shape) + 1j * normal(*shape, seed=21)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 1.0])

ROWS = {
    "negative": case(normal(3, 4), ref=np.negative, complexes=True),
    "positive": case(normal(3, 4), ref=np.positive, complexes=True),
    "absolute": [
        case(apart(3, 4), ref=np.abs, complexes=True),
        case(integers(4, low=-5), ref=np.abs),
    ],
    "sign": case(apart(3, 4), ref=np.sign),
    "sgn": [
        case(apart(3, 4), ref=np.sign),
        case(parts(3, 2), ref=lambda x: x / abs(x)),
    ],
    "floor": case(apart(3, 4), ref=np.floor),
    "ceil": case(apart(3, 4), ref=np.ceil),
    "trunc": case(apart(3, 4), ref=np.trunc),
    "frac": case(apart(3, 4), ref=lambda x: x - np.trunc(x)),
    "round": [
        case(np.array([0.5, 1.5, 2.4, -0.5, -2.6]), ref=np.round, constant=(0,)),
        case(apart(3) + 0.02, decimals=1, ref=lambda x, decimals: np.round(x, decimals)),
        case(
            np.array([1234.5, -155.0]),
            decimals=-2,
            ref=lambda x, decimals: np.round(x, decimals),
            constant=(0,),
        ),
    ],
    "clone": case(normal(3, 4), ref=np.copy, complexes=True),
    "contiguous_copy": case(normal(4, 3).T, ref=np.ascontiguousarray, complexes=True),
    "cast": [
        case(normal(3), dtype="float64", ref=lambda x, dtype: x),
        case(normal(3), dtype="complex128", ref=lambda x, dtype: x.astype(dtype)),
        case(parts(3), dtype="float64", ref=lambda x, dtype: x.real),
        case(normal(3), dtype="int32", ref=lambda x, dtype: x.astype("i4"), constant=(0,)),
    ],
    "zeros_like": case(normal(3), ref=np.zeros_like),
    "ones_like": case(normal(3), ref=np.ones_like),
    "copy": case(normal(3, 4), normal(4), ref=lambda x, y: np.broadcast_to(y, x.shape)),
    "fill": case(normal(3), value=2, ref=lambda x, value: np.full_like(x, value)),
    "nan_to_num": case(
        SPECIAL, nan=5.0, ref=lambda x, nan: np.nan_to_num(x, nan=nan), constant=(0,)
    ),
    "transfer": case(normal(3), move=np.copy, back=np.copy, ref=lambda x, move, back: x),
    "exp": case(normal(3, 4), ref=np.exp, complexes=True),
    "exp2": case(normal(3), ref=np.exp2, complexes=True),
    "expm1": case(normal(3), ref=np.expm1, complexes=True),
    "log": case(positive(3, 4), ref=np.log, complexes=True),
    "log2": case(positive(3), ref=np.log2, complexes=True),
    "log10": case(positive(3), ref=np.log10, complexes=True),
    "log1p": case(positive(3), ref=np.log1p, complexes=True),
    "sqrt": case(positive(3, 4), ref=np.sqrt, complexes=True),
    "rsqrt": case(positive(3, 4), ref=lambda x: 1 / np.sqrt(x), complexes=True),
    "reciprocal": case(positive(3, 4), ref=np.reciprocal, complexes=True),
    "square": case(normal(3, 4), ref=np.square, complexes=True),
    "logit": case(inside(4) / 2 + 0.5, ref=scipy.special.logit),
    "sin": case(normal(3, 4), ref=np.sin, complexes=True),
    "cos": case(normal(3, 4), ref=np.cos, complexes=True),
    "tan": case(inside(3, 4), ref=np.tan, complexes=True),
    "asin": case(inside(3, 4), ref=np.arcsin, complexes=True),
    "acos": case(inside(3, 4), ref=np.arccos, complexes=True),
    "atan": case(inside(3, 4), ref=np.arctan, complexes=True),
    "sinh": case(normal(3, 4), ref=np.sinh, complexes=True),
    "cosh": case(normal(3, 4), ref=np.cosh, complexes=True),
    "tanh": case(normal(3, 4), ref=np.tanh, complexes=True),
    "asinh": case(normal(3, 4), ref=np.arcsinh, complexes=True),
    "acosh": case(positive(3, 4) + 1, ref=np.arccosh, complexes=True),
    "atanh": case(inside(3, 4), ref=np.arctanh, complexes=True),
    "deg2rad": case(normal(3), ref=np.deg2rad),
    "rad2deg": case(normal(3), ref=np.rad2deg, tolerance=1e-4),
    "erf": case(normal(3, 4), ref=scipy.special.erf),
    "erfc": case(normal(3, 4), ref=scipy.special.erfc),
    "erfcx": case(normal(3, 4), ref=scipy.special.erfcx),
    "erfinv": case(inside(3, 4), ref=scipy.special.erfinv),
    "lgamma": case(positive(3, 4), ref=scipy.special.gammaln),
    "digamma": case(positive(3, 4), ref=scipy.special.digamma),
    "polygamma": [
        case(positive(3), n=1, ref=lambda x, n: scipy.special.polygamma(n, x), tolerance=1e-4),
        case(positive(3), n=2, ref=lambda x, n: scipy.special.polygamma(n, x)),
    ],
    "ndtr": case(normal(4), ref=scipy.special.ndtr),
    "ndtri": case(inside(4) / 2 + 0.5, ref=scipy.special.ndtri),
    "entr": case(positive(4), ref=scipy.special.entr),
    "sinc": case(apart(4), ref=np.sinc, complexes=True),
    "relu": case(apart(3, 4), ref=lambda x: np.maximum(x, 0)),
    "sigmoid": case(normal(3, 4), ref=scipy.special.expit),
    "gelu": [
        case(normal(3, 4), ref=lambda x: x * scipy.special.ndtr(x)),
        case(
            normal(3),
            approximate="tanh",
            ref=lambda x, approximate: (
                x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2
            ),
        ),
    ],
    "relu_vjp": case(normal(3, 4), apart(3, 4), ref=lambda g, y: g * (y > 0)),
    "softmax": case(
        normal(3, 4), axis=-1, ref=lambda x, axis: along(scipy.special.softmax, x, axis)
    ),
    "log_softmax": case(
        normal(3, 4), axis=0, ref=lambda x, axis: along(scipy.special.log_softmax, x, axis)
    ),
    "logsumexp": [
        case(normal(3, 4), axis=1, ref=lambda x, axis: along(scipy.special.logsumexp, x, axis)),
        case(
            normal(3, 4),
            axis=(0, 1),
            keepdims=True,
            ref=lambda x, axis, keepdims: scipy.special.logsumexp(x, axis=axis, keepdims=True),
        ),
    ],
    "conj": case(parts(3, 2), ref=np.conj),
    "real": case(parts(3, 2), ref=np.real),
    "imag": case(parts(3, 2), ref=np.imag),
    "angle": [case(parts(3, 2), ref=np.angle), case(apart(3), ref=np.angle)],
    "complex": case(normal(3, 2), normal(2, seed=9), ref=lambda x, y: x + 1j * y),
    "polar": case(positive(3), normal(3), ref=lambda r, a: r * np.exp(1j * a)),
    "view_as_real": case(parts(3, 2), ref=lambda x: np.stack([x.real, x.imag], -1)),
    "view_as_complex": case(normal(3, 2), ref=lambda x: x[..., 0] + 1j * x[..., 1]),
    "equal": case(integers(6), integers(6, seed=8), ref=np.equal),
    "not_equal": case(integers(6), integers(6, seed=8), ref=np.not_equal),
    "less": case(normal(6), normal(6, seed=8), ref=np.less),
    "less_equal": case(integers(6), integers(6, seed=8), ref=np.less_equal),
    "greater": case(normal(6), normal(6, seed=8), ref=np.greater),
    "greater_equal": case(integers(6), integers(6, seed=8), ref=np.greater_equal),
    "logical_and": case(mask(6), integers(6), ref=np.logical_and),
    "logical_or": case(mask(6), integers(6), ref=np.logical_or),
    "logical_xor": case(mask(6), integers(6), ref=np.logical_xor),
    "logical_not": case(integers(6), ref=np.logical_not),
    "bitwise_and": case(integers(6), integers(6, seed=8), ref=np.bitwise_and),
    "bitwise_or": case(integers(6), integers(6, seed=8), ref=np.bitwise_or),
    "bitwise_xor": case(mask(6), mask(6, seed=8), ref=np.bitwise_xor),
    "bitwise_not": [case(integers(6), ref=np.invert), case(mask(6), ref=np.logical_not)],
    "bitwise_left_shift": case(integers(6), integers(6, seed=8), ref=np.left_shift),
    "bitwise_right_shift": case(integers(6, high=99), integers(6), ref=np.right_shift),
    "isnan": case(SPECIAL, ref=np.isnan),
    "isinf": case(SPECIAL, ref=np.isinf),
    "isfinite": case(SPECIAL, ref=np.isfinite),
    "isposinf": case(SPECIAL, ref=np.isposinf),
    "isneginf": case(SPECIAL, ref=np.isneginf),
    "isreal": case(np.array([1.0, 1j]), ref=np.isreal),
    "signbit": case(np.array([1.0, -0.0, -2.0]), ref=np.signbit),
    "isclose": case(SPECIAL, SPECIAL, equal_nan=True, ref=np.isclose),
    "heaviside": case(np.array([-1.0, 0.0, 2.0]), np.array(0.5), ref=np.heaviside),
    "gcd": case(integers(6, high=99), integers(6, high=99, seed=8), ref=np.gcd),
    "lcm": case(integers(6, high=99), integers(6, high=99, seed=8), ref=np.lcm),
    "nextafter": case(normal(3), normal(3, seed=8), ref=np.nextafter),
}
