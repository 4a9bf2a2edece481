"""Large NumPy arrays go through an op's forward and its formulas in one native pass, made from the
same text on symbols; what comes out is what the array calls give: NaN, infinities and signs of
zeros where they have them.
"""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import gradhook
from gradhook.autograd import fusion
from gradhook.autograd.record import ops
from gradhook.native import library
from gradhook.native.buffers import LARGE
from gradhook.ops.symbols import Part, traced
from gradhook.ops.table import TABLE

pytestmark = pytest.mark.skipif(not library.is_available(), reason=library.why_not())
# What else an op is called with than its defaults.
OPTIONS = {
    "clamp": {"low": -0.5, "high": 1.5},
    "elu": {"alpha": 0.7},
    "leaky_relu": {"negative_slope": 0.2},
    "softplus": {"beta": 2.0, "threshold": 3.0},
    "logit": {"eps": 0.1},
}


def is_fused(row):
    """Whether an op's forward is one pass with its defaults."""
    if row.view or row.variadic or row.composite or row.n_outputs != 1:
        return False
    if inspect.Parameter.empty in row.attributes.values():
        return False
    part = Part(row.forward, row.inputs, tuple(row.attributes))
    return traced([part], row.inputs, dict(row.attributes)) is not None


NAMES = sorted(name for name, row in TABLE.items() if is_fused(row))
CASES = [(name, {}) for name in NAMES if name != "clamp"] + [
    (n, OPTIONS[n]) for n in NAMES if n in OPTIONS
]


def numbers(dtype, seed):
    """As many as are large and not a whole number of vectors: ordinary ones, small and large ones,
    denormal ones, zeros, infinities, NaN; in another order for another seed.
    """
    info, random = np.finfo(dtype), np.random.default_rng(seed)
    # of the largest, a quarter: a * b + c in one rounding does not overflow in a * b
    few = [0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan, info.max / 4, info.tiny, -info.tiny]
    few += [info.smallest_subnormal, -info.max / 4, 20, -20, 90, -90, 1e-3, 1.5, -0.5]
    found = np.concatenate([random.standard_normal(LARGE // 2) * 2, random.uniform(0, 1, LARGE)])
    found = found[: LARGE + 77].astype(dtype)
    places = random.permutation(len(found))[: 20 * len(few)]
    found[places] = np.tile(np.array(few, dtype), 20)
    return found


def passed(name, options, dtype):
    """The result of an op over large arrays, and the gradient for each input."""
    row = TABLE[name]
    tensors = [
        gradhook.tensor(numbers(dtype, k), requires_grad=True) for k in range(len(row.inputs))
    ]
    out = getattr(ops, name)(*tensors, **options)
    out.backward(gradhook.tensor(incoming(dtype)))
    return [t.detach().numpy() for t in (out, *[t.grad for t in tensors if t.grad is not None])]


def incoming(dtype):
    """The gradient of the result: finite numbers."""
    g = numbers(dtype, 9)
    return np.where(np.isfinite(g), g, np.dtype(dtype).type(3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_one_native_pass_gives_what_array_calls_give(name, options, dtype, monkeypatch):
    ran = []
    call = fusion.Fused.__call__

    def noted(self, arrays, given):
        found = call(self, arrays, given)
        ran.append(found is not None)
        return found

    monkeypatch.setattr(fusion.Fused, "__call__", noted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = passed(name, options, dtype)
        monkeypatch.setattr(fusion.Fused, "__call__", lambda *_: None)
        expected = passed(name, options, dtype)
    assert any(ran)
    tolerance = {"float32": 4e-6, "float64": 1e-14}[dtype]
    assert len(found) == len(expected)
    g = abs(incoming(dtype))
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.dtype == b.dtype == dtype and a.shape == b.shape
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        zeros, usual = (a == 0) & (b == 0), np.isfinite(b)
        assert (np.signbit(a) == np.signbit(b))[zeros].all(), "a zero of another sign"
        np.testing.assert_array_equal(a[~usual], b[~usual])
        # a gradient may be the difference of two numbers as large as the incoming one
        a, b, of = (v[usual].astype(np.longdouble) for v in (a, b, g))
        bound = tolerance * (1 + abs(b) + (of if k else 0))
        worst = np.argmax(abs(a - b) - bound)
        assert (abs(a - b) <= bound).all(), f"result {k}: {a[worst]}, expected {b[worst]}"


def test_ops_that_are_one_pass_are_many():
    assert len(NAMES) > 30 and {"sigmoid", "tanh", "multiply", "exp", "clamp"} <= set(NAMES)


def test_arrays_that_are_not_contiguous_or_of_two_shapes_are_left_to_array_calls():
    x = gradhook.randn(300, 200)
    y = gradhook.randn(200, 300).t()
    row = gradhook.randn(200)
    for a, b in [(x, y), (y, x), (x, row), (row, x), (x, x[:, :1])]:
        found = (gradhook.as_tensor(a) * b).numpy()
        np.testing.assert_array_equal(found, a.numpy() * b.numpy())


def test_a_number_beside_a_large_array_is_one_pass_too():
    x = gradhook.randn(300, 200, requires_grad=True)
    s = gradhook.tensor(2.5, requires_grad=True)
    (x * s).sum().backward()
    np.testing.assert_allclose(s.grad.item(), x.detach().numpy().sum(), rtol=1e-3)
    np.testing.assert_array_equal(x.grad.numpy(), np.full((300, 200), 2.5, "f4"))
