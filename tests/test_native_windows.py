"""Convolutions and pooling, which ask for native code themselves, compute what the formulas say."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from native_samples import (
    DTYPES,
    LAYOUTS,
    TOLERANCE,
    UNUSUAL,
    cast,
    dispatched,
    drawn,
    expect,
    formula,
)  # fmt: skip

from gradhook.native import library

pytestmark = pytest.mark.skipif(not library.is_available(), reason=library.why_not())
GEOMETRIES = {
    "one axis": ((5, 3, 9), (4, 3, 2), {}),
    "padding": ((5, 3, 9, 8), (4, 3, 3, 2), {"padding": (2, 1)}),
    "dilation": ((2, 3, 9, 8), (17, 3, 3, 2), {"padding": (2, 1), "dilation": 2}),
    "uneven padding": ((5, 3, 9, 8), (4, 3, 3, 2), {"padding": ((2, 1), (0, 1))}),
    "three axes": ((5, 2, 4, 5, 6), (3, 2, 2, 3, 2), {}),
    "one by one": ((3, 40, 5, 5), (9, 40, 1, 1), {}),
    "as large as the plane": ((2, 2, 3, 3), (2, 2, 3, 3), {}),
    "planes of less than a vector": ((300, 1, 2, 2), (2, 1, 1, 1), {}),
    "one number a plane": ((600, 1, 1), (3, 1, 1), {}),
    "stride": ((5, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 1)}),
    "groups": ((5, 4, 9, 8), (6, 2, 3, 2), {"groups": 2}),
    "one sample, one channel": ((1, 1, 28, 28), (1, 1, 5, 5), {}),
}


def convolution_arrays(geometry, dtype):
    x_shape, weight_shape, attributes = GEOMETRIES[geometry]
    x, weight = drawn(*x_shape).astype(dtype), drawn(*weight_shape, seed=1).astype(dtype)
    bias = drawn(weight_shape[0], seed=2).astype(dtype)
    shape = formula("convolution", x, weight, bias, **attributes).shape
    g = drawn(*shape, seed=3).astype(dtype)
    return {
        "convolution": ((x, weight, bias), attributes),
        "convolution_input": ((g, weight), {**attributes, "shape": x_shape}),
        "convolution_weight": ((g, x), {**attributes, "shape": weight_shape}),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", sorted(GEOMETRIES))
def test_convolutions_and_their_gradients(geometry, dtype):
    for name, (arrays, attributes) in convolution_arrays(geometry, dtype).items():
        found = dispatched(name, *arrays, **attributes)
        expected = formula(name, *cast(arrays, "float64"), **attributes)
        expect(found, expected, 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("change", UNUSUAL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("geometry", ["padding", "three axes", "one sample, one channel"])
def test_unusual_numbers_in_a_convolution(geometry, which, change):
    for name, (arrays, attributes) in convolution_arrays(geometry, "float32").items():
        arrays = [a.copy() for a in arrays]
        change(arrays[which])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the formula, which takes what the kernel declines
            found = dispatched(name, *arrays, **attributes)
            expect(found, formula(name, *arrays, **attributes), 1e-4)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_convolutions_of_arrays_of_any_layout(layout):
    for name, (arrays, attributes) in convolution_arrays("padding", "float32").items():
        laid = [LAYOUTS[layout](a) for a in arrays]
        expect(dispatched(name, *laid, **attributes), formula(name, *arrays, **attributes), 2e-5)


@pytest.mark.parametrize("x_shape", [(0, 3, 9, 8), (2, 0, 9, 8)])
def test_convolutions_of_empty_arrays(x_shape):
    x, weight = np.zeros(x_shape, "f4"), np.zeros((4, x_shape[1], 3, 2), "f4")
    found = dispatched("convolution", x, weight, np.ones(4, "f4"))
    assert found.shape == (x_shape[0], 4, 7, 7) and (found == 1).all()


POOLS = {
    "one axis": ((3, 2, 17), 1, {"kernel": (3,), "stride": 2}),
    "overlap": ((2, 3, 9, 11), 2, {"kernel": (3, 2), "stride": (2, 1), "padding": 1}),
    "dilation": ((2, 3, 9, 11), 2, {"kernel": (2, 3), "stride": 1, "dilation": 2}),
    "ceil mode": ((2, 9, 11), 2, {"kernel": (2, 2), "stride": 2, "ceil_mode": True}),
    "three axes": ((2, 5, 6, 7), 3, {"kernel": (2, 2, 3), "stride": 2}),
}


@pytest.mark.parametrize("change", [None, *UNUSUAL], ids=lambda f: getattr(f, "__name__", "as is"))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pool", sorted(POOLS))
def test_maxima_of_windows_their_places_and_gradients(pool, dtype, change):
    shape, rank, attributes = POOLS[pool]
    x = np.round(drawn(*shape), 1).astype(dtype)  # some are equal: the first is the place
    if change is not None:
        change(x)
    given = {"rank": rank, **attributes}
    found, expected = (f("max_pool", x, **given) for f in (dispatched, formula))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    g = drawn(*found[0].shape, seed=4).astype(dtype)
    back = [f("plane_scatter", g, found[1], shape=shape, rank=rank) for f in (dispatched, formula)]
    expect(*back, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_do_not_fit_each_other_are_refused_as_by_the_formula(dtype):
    """Native code would read beyond them."""
    x, weight, bias = drawn(2, 3, 8, 8), drawn(4, 3, 3, 3), drawn(4)
    wide = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    calls = [
        ("convolution", [x, drawn(4, 2, 3, 3), bias], wide),
        ("convolution", [x, weight, drawn(3)], wide),
        ("convolution_input", [drawn(2, 5, 6, 6), weight], {**wide, "shape": x.shape}),
        ("convolution_input", [drawn(2, 4, 5, 6), weight], {**wide, "shape": x.shape}),
        ("convolution_weight", [drawn(2, 4, 6, 5), x], {**wide, "shape": weight.shape}),
    ]
    for name, arrays, attributes in calls:
        for run in (dispatched, formula):
            with pytest.raises((ValueError, RuntimeError)):
                run(name, *cast(arrays, dtype), **attributes)
