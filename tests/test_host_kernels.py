"""What NumPy computes in parts or in fewer calls is what the formulas say."""

from __future__ import annotations

import inspect
import threading
from functools import partial
from unittest import mock

import numpy as np
import pytest

import gradhook
from gradhook.kernels import parts
from gradhook.kernels.registry import HOST_KERNELS
from gradhook.ops import namespace, nn_conv_parts
from gradhook.ops.table import TABLE
from gradhook.optim import elementwise

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def drawn(*shape, seed=0, dtype="float32", scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def lstm(dtype, length=9, batch=40, features=6, hidden=128):
    shapes = [(length, batch, features), (batch, hidden), (batch, hidden)]
    shapes += [(4 * hidden, features), (4 * hidden, hidden), (4 * hidden,)]
    return [drawn(*s, seed=k, dtype=dtype, scale=0.3) for k, s in enumerate(shapes)]


def lstm_vjp(dtype):
    given = lstm(dtype)
    by = [drawn(9, 40, 128, seed=k, dtype=dtype) for k in (20, 21)]
    return [*by, *given, *TABLE["lstm_sequence"].forward(np, *given)]


# 100 x 384 is more than two parts, and its last part is not full
SAMPLES = {
    "softmax": [(lambda d: [drawn(4, 100, 384, dtype=d)], {"axis": -1}),
                (lambda d: [drawn(100, 384, dtype=d, scale=90)], {"axis": 1})],
    "softmax_vjp": [(lambda d: [drawn(100, 384, dtype=d), drawn(100, 384, seed=1, dtype=d)],
                     {"axis": -1})],
    "relu_vjp": [(lambda d: [drawn(100, 385, dtype=d), np.maximum(drawn(100, 385, dtype=d), 0)],
                  {})],
    "gelu": [(lambda d: [drawn(100, 385, dtype=d, scale=3)], {"approximate": "none"})],
    "gelu_vjp": [(lambda d: [drawn(100, 385, dtype=d), drawn(100, 385, dtype=d, scale=3)],
                  {"approximate": "none"})],
    "layer_norm": [
        (lambda d: [drawn(100, 384, dtype=d) + 3, drawn(384, dtype=d), drawn(384, seed=2, dtype=d)],
         {"axis": (-1,), "eps": 1e-5}),
        (lambda d: [drawn(2, 50, 384, dtype=d), None, None], {"axis": -1, "eps": 1e-3}),
    ],
    "layer_norm_vjp": [
        (lambda d: [*(drawn(100, 384, seed=k, dtype=d) for k in (0, 1)), drawn(384, dtype=d)],
         {"axis": (-1,), "eps": 1e-5, "weight_shape": (384,), "bias_shape": (384,)}),
        (lambda d: [drawn(100, 384, dtype=d), drawn(100, 384, seed=1, dtype=d), None],
         {"axis": -1, "eps": 1e-5, "weight_shape": None, "bias_shape": None}),
    ],
    "lstm_sequence": [(lstm, {}), (lambda d: [*lstm(d)[:5], None], {})],
    "lstm_sequence_vjp": [(lstm_vjp, {"needs": (True,) * 6})],
}  # fmt: skip


def test_every_host_kernel_is_compared():
    assert set(SAMPLES) == set(HOST_KERNELS)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_host_kernel_takes_what_the_table_function_takes(name):
    def parameters(function):
        found = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, p.default) for p in found if p.name != "xp"]

    assert parameters(HOST_KERNELS[name]) == parameters(TABLE[name].forward)


def formula(name, *arrays, **attributes):
    """The table's function without kernels."""
    row = TABLE[name]
    with mock.patch.object(namespace, "with_kernel", lambda _name, _module, fallback: fallback):
        xp = namespace.TableNamespace(np) if row.composite else np
        return row.forward(xp, *arrays, **attributes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_host_kernel_computes_what_the_formula_says(name, dtype):
    ran = 0
    for arrays_of, attributes in SAMPLES[name]:
        arrays = arrays_of(dtype)
        before = [None if a is None else a.copy() for a in arrays]
        found = HOST_KERNELS[name](*arrays, **attributes)
        for a, b in zip(arrays, before, strict=True):
            assert a is None or np.array_equal(a, b)
        if found is NotImplemented:
            continue
        ran += 1
        expected = formula(name, *arrays, **attributes)
        pairs = zip(found, expected, strict=True) if type(found) is tuple else [(found, expected)]
        for a, b in pairs:
            assert (a is None) == (b is None)
            if a is not None:
                assert a.dtype == b.dtype == dtype and a.shape == b.shape
                scale = max(1.0, np.abs(b).max())
                assert np.abs(a - b).max() <= TOLERANCE[dtype] * scale
    assert ran or (dtype == "float64" and name.startswith("gelu"))


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm"])
def test_nan_and_infinities_go_through_a_host_kernel_as_through_the_formula(name):
    x = drawn(100, 384)
    x[3, 5], x[40, 1], x[41, 2] = np.nan, np.inf, -np.inf
    attributes = SAMPLES[name][0][1]
    with np.errstate(invalid="ignore"):
        found, expected = HOST_KERNELS[name](x, **attributes), formula(name, x, **attributes)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arrays", [(drawn(300, 200).T,), (drawn(64, 1024)[:, ::2],)])
@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm"])
def test_arrays_that_are_not_contiguous_give_the_same(name, arrays):
    call = {"gelu": gradhook.nn.functional.gelu, "softmax": partial(gradhook.softmax, dim=-1)}
    norm = partial(gradhook.nn.functional.layer_norm, normalized_shape=arrays[0].shape[-1:])
    f = call.get(name, norm)
    (x,) = arrays
    found, expected = (f(gradhook.tensor(a)) for a in (x, np.ascontiguousarray(x)))
    np.testing.assert_allclose(found.cpu().numpy(), expected.cpu().numpy(), rtol=1e-5, atol=1e-6)


GEOMETRIES = {
    "one axis": ((5, 3, 9), (4, 3, 2), {}),
    "padding and dilation": ((5, 3, 9, 8), (4, 3, 3, 2), {"padding": (2, 1), "dilation": 2}),
    "uneven padding": ((5, 3, 9, 8), (4, 3, 3, 2), {"padding": ((2, 1), (0, 1))}),
    "stride": ((5, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 1), "padding": 1}),
    "three axes": ((5, 2, 4, 5, 6), (3, 2, 2, 3, 2), {}),
}


@pytest.mark.parametrize("part", [1, 500, 1 << 18], ids=["one sample", "a few", "all samples"])
@pytest.mark.parametrize("geometry", sorted(GEOMETRIES))
def test_a_convolution_of_a_few_samples_at_a_time_is_that_of_the_batch(geometry, part):
    """Forward and both gradients, whatever scratch memory held before."""
    x_shape, weight_shape, attributes = GEOMETRIES[geometry]
    x, weight = drawn(*x_shape, dtype="float64"), drawn(*weight_shape, seed=1, dtype="float64")
    bias = drawn(weight_shape[0], seed=2, dtype="float64")
    held = parts.scratch("products", (1 << 12,), x.dtype)
    held.fill(np.nan)

    def all_three():
        out = TABLE["convolution"].forward(np, x, weight, bias, **attributes)
        g = drawn(*out.shape, seed=3, dtype="float64")
        by_x = TABLE["convolution_input"].forward(np, g, weight, shape=x_shape, **attributes)
        by = TABLE["convolution_weight"].forward(np, g, x, shape=weight_shape, **attributes)
        return out, by_x, by

    with mock.patch.object(nn_conv_parts, "PART", part):
        found = all_three()
    with mock.patch.object(nn_conv_parts, "takes", lambda *_: False):
        expected = all_three()
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.flags.c_contiguous
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_an_optimizer_steps_a_large_parameter_in_parts_as_a_small_one():
    """The last part is not full; weight decay, maximize and amsgrad have scratch of their own."""
    start = drawn(2 * elementwise.PART + 77)
    results = []
    for part in (elementwise.PART, 1 << 30):
        with mock.patch.object(elementwise, "PART", part):
            p = gradhook.nn.Parameter(gradhook.tensor(start))
            options = {"weight_decay": 0.1, "amsgrad": True, "maximize": True}
            optimizer = gradhook.optim.Adam([p], lr=0.1, **options)
            for k in range(3):
                p.grad = gradhook.tensor(drawn(len(start), seed=k))
                optimizer.step()
            results.append(p.detach().cpu().numpy())
    assert np.array_equal(*results)


def test_scratch_memory_is_a_threads_own_and_kept_up_to_a_size():
    kind = np.dtype("float32")
    first = parts.scratch("a", (10, 10), kind)
    assert np.shares_memory(first, parts.scratch("a", (5, 5), kind))
    assert not np.shares_memory(first, parts.scratch("b", (10, 10), kind))
    other = []
    thread = threading.Thread(target=lambda: other.append(parts.scratch("a", (10, 10), kind)))
    thread.start()
    thread.join()
    assert not np.shares_memory(first, other[0])
    huge = (parts.MOST_HELD,)
    assert not np.shares_memory(parts.scratch("a", huge, kind), parts.scratch("a", huge, kind))


def test_the_gates_of_many_threads_do_not_mix():
    given = lstm("float32")
    expected = HOST_KERNELS["lstm_sequence_vjp"](*lstm_vjp("float32"), needs=(True,) * 6)
    found = []

    def work():
        arrays = [drawn(9, 40, 128, seed=k) for k in (20, 21)]
        outs = HOST_KERNELS["lstm_sequence"](*given)
        found.append(HOST_KERNELS["lstm_sequence_vjp"](*arrays, *given, *outs, needs=(True,) * 6))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4
    for gradients in found:
        for a, b in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
