"""Every table function that runs natively on NumPy arrays computes what its formula says: odd
sizes, any layout, empty arrays, NaN, infinities, denormal and extreme numbers; what a kernel does
not take is left to the formula.
"""

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
    several,
)  # fmt: skip

import gradhook
from gradhook.kernels.registry import KERNELS, NATIVE
from gradhook.native import library

pytestmark = pytest.mark.skipif(not library.is_available(), reason=library.why_not())


def reaches(*shape):
    """Scores with large and equal ones among them."""
    x = drawn(*shape) * 20
    x.flat[:3] = x.max()
    return x


def probabilities(*shape):
    powers = np.exp(drawn(*shape))
    return powers / powers.sum(-1, keepdims=True)


def targets(rows, classes, ignored=-100):
    found = np.arange(rows) * 7 % classes
    found[::5] = ignored
    return found


LAST = {"axis": -1}
SHAPES = [(7, 13), (3, 5, 33), (1, 1), (2, 1031), (40, 64)]
ROWS = [((drawn(*s), drawn(*s, seed=1)), LAST) for s in SHAPES]
NORM = {"axis": (-1,), "eps": 1e-5}
BY_CHANNEL = {"axis": (0, 2, 3), "eps": 1e-5}
OF_4 = (3, 5, 4, 7)
LOSSES = [
    {"reduction": r, "label_smoothing": s, "ignore_index": -100}
    for r in ("mean", "sum", "none")
    for s in (0.0, 0.1)
]
SCORES = [((21, 11), (21,)), ((4, 6, 5, 3), (4, 5, 3)), ((9,), ()), ((60, 130), (60,))]


def loss_samples(gradient, reads, each=True):
    found = []
    for shape, target_shape in SCORES:
        classes = shape[min(1, len(shape) - 1)]
        count = int(np.prod(target_shape))
        target = targets(count, classes).reshape(target_shape) if count > 1 else np.array(2)
        weight = abs(drawn(classes, seed=5))
        for options in LOSSES:
            g = drawn(*(target_shape if options["reduction"] == "none" else ()), seed=8)
            g = np.asarray(g)
            x = drawn(*shape)
            arrays = ((g,) if gradient else ()) + ((x,) if reads else ())
            more = {"shape": shape} if gradient and not reads else {}
            for w in (None, weight):
                found.append(((*arrays, target, w), {**options, **more}))
    return found


# name -> (arrays, attributes): arrays of float64, cast to the dtype that is tried
SAMPLES = {
    "softmax": [((reaches(*s),), LAST) for s in SHAPES],
    "log_softmax": [((reaches(*s),), LAST) for s in SHAPES],
    "softmax_vjp": [((drawn(*s), probabilities(*s)), LAST) for s in SHAPES],
    "log_softmax_vjp": [((drawn(*s), np.log(probabilities(*s))), LAST) for s in SHAPES],
    "gelu": [
        ((drawn(*s) * 3,), {"approximate": a})
        for s in [*SHAPES, (33_333,)]
        for a in ("none", "tanh")
    ],
    "gelu_vjp": [
        ((drawn(*s), drawn(*s, seed=1) * 3), {"approximate": a})
        for s in [*SHAPES, (33_333,)]
        for a in ("none", "tanh")
    ],
    "relu_vjp": [((drawn(*s), np.maximum(drawn(*s, seed=1), 0)), {}) for s in SHAPES],
    "layer_norm": [
        *[((drawn(*s) + 3, drawn(s[-1], seed=1), drawn(s[-1], seed=2)), NORM) for s in SHAPES],
        *[((drawn(*s), None, None), NORM) for s in SHAPES],
        ((drawn(*OF_4), drawn(4, 7), None), {"axis": (-2, -1), "eps": 1e-3}),
    ],
    "standardize_vjp": [
        *[((drawn(*s), drawn(*s, seed=1), drawn(s[-1], seed=2)), NORM) for s in SHAPES[1:]],
        ((drawn(*OF_4), drawn(*OF_4, seed=1), None), BY_CHANNEL),
    ],
    "layer_norm_vjp": [
        (
            (drawn(*s), drawn(*s, seed=1), drawn(s[-1], seed=2)),
            {**NORM, "weight_shape": s[-1:], "bias_shape": s[-1:]},
        )
        for s in SHAPES
    ]
    + [
        (
            (drawn(*OF_4), drawn(*OF_4, seed=1), drawn(5, 1, 1, seed=2)),
            {**BY_CHANNEL, "weight_shape": (5, 1, 1), "bias_shape": (5, 1, 1)},
        )
    ],
    "running_moments": [
        (
            (drawn(*OF_4), drawn(5, seed=1), abs(drawn(5, seed=2))),
            {"axis": (0, 2, 3), "momentum": m},
        )
        for m in (0.1, 1.0)
    ],
    "var": [
        ((drawn(*OF_4) + 5,), {"axis": axis, "correction": c, "keepdims": k})
        for axis, c, k in [(None, 1, False), (-1, 0, True), ((0, 2, 3), 1, False), (1, 2, True)]
    ],
    "std": [((drawn(*OF_4) + 5,), {"axis": axis}) for axis in (None, -1, (0, 2, 3), 1)],
    "var_vjp": [
        ((drawn(3, 5, 4), drawn(*OF_4, seed=1)), {"axis": -1, "correction": 1, "keepdims": False}),
        ((drawn(1, 5, 1, 1), drawn(*OF_4)), {"axis": (0, 2, 3), "correction": 0, "keepdims": True}),
    ],
    "std_vjp": [
        (
            (drawn(3, 5, 4), drawn(*OF_4, seed=1), drawn(*OF_4, seed=1).std(-1, ddof=1)),
            {"axis": -1, "correction": 1, "keepdims": False},
        )
    ],
    "cross_entropy": loss_samples(False, True),
    "nll_loss": loss_samples(False, True),
    "cross_entropy_input": loss_samples(True, True),
    "nll_loss_input": loss_samples(True, False),
}


CASES = [(name, k) for name in sorted(SAMPLES) for k in range(len(SAMPLES[name]))]


def test_every_native_function_is_compared():
    assert set(SAMPLES) == NATIVE


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "k"), CASES)
def test_a_native_kernel_computes_what_the_formula_says_in_float64(name, k, dtype):
    given, attributes = SAMPLES[name][k]
    arrays = cast(given, dtype)
    before = [None if a is None else a.copy() for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = KERNELS[name](*arrays, **attributes)
    assert found is not NotImplemented
    assert all(a is None or a.dtype == dtype for a in several(found))
    for a, b in zip(arrays, before, strict=True):
        assert a is None or np.array_equal(a, b)
    wide = cast(arrays, "float64")
    expect(found, formula(name, *wide, **attributes), TOLERANCE[dtype])


# ---- numbers that are no ordinary ones


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("change", UNUSUAL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_unusual_numbers_go_through_a_kernel_as_through_the_formula(name, change, dtype):
    """NaN and infinities where the formula of the same dtype has them; the rest as close as its."""
    for given, attributes in SAMPLES[name][:: max(1, len(SAMPLES[name]) // 6)]:
        arrays = cast(given, dtype)
        if arrays[0].shape == (1, 1):  # all that is left of it are roundings
            continue
        floats = [a for a in arrays if a is not None and a.dtype == dtype]
        # the scores, not a weight
        change(floats[0] if name == "nll_loss_input" else max(floats, key=lambda a: a.size))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = KERNELS[name](*arrays, **attributes)
        expect(found, formula(name, *arrays, **attributes), 1e-4)


# ---- other layouts, shapes and dtypes


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_arrays_of_any_layout_give_the_same(name, layout):
    for given, attributes in SAMPLES[name][::2]:
        arrays = cast(given, "float32")
        laid = [a if a is None or not a.ndim else LAYOUTS[layout](a) for a in arrays]
        found = dispatched(name, *laid, **attributes)
        expect(found, formula(name, *arrays, **attributes), 2e-5)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_broadcast_arrays_give_the_same(name):
    """Of the strides 0 that expand gives."""
    for given, attributes in SAMPLES[name][::2]:
        arrays = cast(given, "float32")
        same = [
            a if a is None or a.ndim < 2 or a.dtype.kind == "i" else np.broadcast_to(a[:1], a.shape)
            for a in arrays
        ]
        expected = formula(name, *[None if a is None else a.copy() for a in same], **attributes)
        expect(dispatched(name, *same, **attributes), expected, 2e-5)


EMPTY = {
    "softmax": [((0, 3), LAST), ((3, 0), LAST)],
    "log_softmax": [((0, 3), LAST)],
    "gelu": [((0,), {"approximate": "none"}), ((2, 0, 3), {"approximate": "tanh"})],
    "layer_norm": [((0, 3), NORM)],
    "softmax_vjp": [((0, 3), LAST)],
    "log_softmax_vjp": [((0, 3), LAST)],
    "relu_vjp": [((0,), {})],
    "gelu_vjp": [((0, 2), {"approximate": "none"})],
}


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_empty_arrays_give_empty_ones(name):
    count = 2 if name.endswith("vjp") else 1
    for shape, attributes in EMPTY[name]:
        if 0 in shape[-1:] and name == "softmax":
            continue  # no largest element: the formula's own error
        arrays = [np.zeros(shape, "f4") for _ in range(count)]
        found = dispatched(name, *arrays, **attributes)
        assert found.shape == shape and found.dtype == np.float32


@pytest.mark.parametrize("kind", [np.array, np.float32], ids=["array", "scalar"])
def test_0_d_arrays_and_scalars_give_the_same(kind):
    x, g = kind(np.float32(0.7)), kind(np.float32(2))
    rows = {
        "gelu": ((x,), {"approximate": "none"}),
        "gelu_vjp": ((g, x), {"approximate": "tanh"}),
        "relu_vjp": ((g, x), {}),
        "softmax": ((x,), LAST),
        "log_softmax": ((x,), LAST),
        "var": ((x,), {"correction": 0}),
        "nll_loss_input": ((g, np.array([1, 2])), {"shape": (2, 3)}),
        "cross_entropy_input": ((g, drawn(2, 3).astype("f4"), np.array([1, 2])), {}),
    }
    for name, (arrays, attributes) in rows.items():
        arrays = [np.asarray(a) if name == "var" else a for a in arrays]
        expected = formula(name, *[np.asarray(a) for a in arrays], **attributes)
        np.testing.assert_allclose(dispatched(name, *arrays, **attributes), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "longdouble", "complex64"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_other_dtypes_are_declined(name, dtype):
    given, attributes = SAMPLES[name][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert KERNELS[name](*cast(given, dtype), **attributes) is NotImplemented


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_float16_is_right_by_the_formula(name):
    for given, attributes in SAMPLES[name][:2]:
        arrays = cast(given, "float16")
        found = dispatched(name, *arrays, **attributes)
        expected = formula(name, *cast(arrays, "float64"), **attributes)
        wide = [a if a is None else a.astype("f8") for a in several(found)]
        expect(wide, expected, 4e-3)


def test_arrays_of_two_dtypes_and_of_swapped_bytes_are_declined():
    x, y = drawn(4, 5).astype("f4"), drawn(4, 5)
    assert KERNELS["softmax"](x.astype(">f4"), axis=-1) is NotImplemented
    assert KERNELS["softmax_vjp"](x, y, axis=-1) is NotImplemented
    assert KERNELS["gelu_vjp"](x, y, approximate="none") is NotImplemented


def test_nothing_is_said_when_an_op_overflows_natively():
    x = gradhook.full((100, 400), 1e30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradhook.softmax(x * 0 + 1, -1)
        gradhook.nn.functional.gelu(x)
        gradhook.nn.functional.layer_norm(x, (400,))
