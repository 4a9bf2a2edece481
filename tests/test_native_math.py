"""How far the functions of kernels/math_cpu.h are from the true values, with the flags that native
kernels are built with. The truth: the C library's functions in a wider type (tests/
native_accuracy.cpp). docs/cpu.md states these bounds.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from gradhook.kernels.sources import header
from gradhook.native import cache, library

pytestmark = pytest.mark.skipif(not library.is_available(), reason=library.why_not())
FUNCTIONS = ["exp", "expm1", "log", "log1p", "tanh", "erf"]
FLOAT_ULP = dict.fromkeys(FUNCTIONS, 2)
DOUBLE_ULP, NORMAL = 4, 1e-7
STEP = 257  # odd: the bit patterns are of all exponents and of all low bits
WIDER = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant + 8


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    place, before = tmp_path_factory.mktemp("accuracy"), cache.place
    cache.place = lambda: (place, "")
    try:
        text = header("math_cpu.h").replace("#pragma once", "")
        text += Path(__file__).with_name("native_accuracy.cpp").read_text("utf-8")
        return ctypes.CDLL(str(cache.library("accuracy", text)))
    finally:
        cache.place = before


def worst(function, *arguments):
    """(the worst distance in ulp, where); no NaN, infinity or sign of a zero may be wrong."""
    out = (ctypes.c_double * 4)()
    function(*arguments, out)
    ulp, where, wrong, wrong_at = out
    assert not wrong, f"{wrong:.0f} results of another kind, the first at {wrong_at!r}"
    return ulp, where


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float32_are_within_their_bound_everywhere(built, name):
    """Over 16 million numbers: all signs and exponents, denormal ones, infinite ones, NaN."""
    ulp, where = worst(built[f"floats_{name}"], ctypes.c_longlong(STEP))
    assert ulp <= FLOAT_ULP[name], f"{ulp:.2f} ulp at {where!r}"


@pytest.mark.skipif(not WIDER, reason="long double is no wider than double here")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float64_are_within_4_ulp(built, name):
    ulp, where = worst(built[f"doubles_{name}"], ctypes.c_longlong(300_000))
    assert ulp <= DOUBLE_ULP, f"{ulp:.2f} ulp at {where!r}"


def special(dtype):
    """Zeros, the smallest and largest numbers, those around 1 and where exp overflows."""
    info = np.finfo(dtype)
    edges = {"float32": [88.72, 88.73, -87.33, -103.97, -104.1, 9.01, 3.92, 5.7, 0.95, 0.6],
             "float64": [709.78, 709.79, -708.39, -745.13, -745.2, 22.0, 5.92]}  # fmt: skip
    found = [0, np.nan, np.inf, info.max, info.tiny, info.smallest_subnormal, 1, 2, 0.5, 1e-5, 1e5]
    found = np.array([*found, *edges[np.dtype(dtype).name]], dtype)
    with np.errstate(over="ignore", under="ignore"):
        below, above = np.nextafter(found, dtype(0)), np.nextafter(found, dtype(np.inf))
    found = np.concatenate([found, below, above])
    return np.concatenate([found, -found])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers_give_what_the_c_library_gives(built, name, dtype):
    """Signs of zeros, infinities, NaN, denormal arguments and results, overflow: none is lost."""
    x = special(dtype)
    words = x.view(f"u{x.itemsize}")
    kind = "floats" if dtype is np.float32 else "doubles"
    function = built[f"given_{kind}_{name}"]
    for n in (len(x), 1, 7):  # a vector's tail, too
        ulp, where = worst(function, ctypes.c_void_p(words.ctypes.data), ctypes.c_longlong(n))
        bound = FLOAT_ULP[name] if dtype is np.float32 else DOUBLE_ULP
        assert ulp <= bound, f"{ulp:.2f} ulp at {where!r}"


@pytest.mark.parametrize("name", ["normal", "normal_density"])
def test_the_normal_distribution_is_within_1e_7(built, name):
    function = built[f"distance_{name}"]
    function.restype = ctypes.c_double
    assert function(ctypes.c_longlong(STEP)) <= NORMAL


def test_the_normal_distribution_ends_at_0_and_1(built):
    """So that a gelu of a large number is that number, and of a small one 0."""
    x = np.array([-np.inf, -3e38, -1e10, -14, 14, 3e38, np.inf, 0, -0.0, np.nan], "f4")
    expected = {
        "normal": [0, 0, 0, 0, 1, 1, 1, 0.5, 0.5, np.nan],
        "normal_density": [0, 0, 0, 0, 0, 0, 0, 0.3989423, 0.3989423, np.nan],
    }
    for name, values in expected.items():
        y = np.empty_like(x)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y)]
        built[f"loop_{name}"](*pointers, ctypes.c_longlong(len(x)))
        np.testing.assert_array_equal(y, np.array(values, "f4"))
