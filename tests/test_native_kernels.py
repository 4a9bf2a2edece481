"""The kernels' own text, compiled by the machine's C++ compiler, equals the formulas."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess

import numpy as np
import pytest

from gradhook import kernels
from gradhook.kernels import catalogue, gradient, layouts, optimizer, small_product
from gradhook.kernels.launch import Kernel
from gradhook.ops.namespace import FormulaNamespace

XP = FormulaNamespace(np)
DTYPES = ["float16", "float32", "float64"]
TOLERANCE = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-14}
RNG = np.random.default_rng(11)
ROWS, N = 6, 35


def together(dtype):
    """One C++ source of every kernel of a dtype, as they are on CUDA."""
    found = [*catalogue.kernels(dtype), chain(dtype)]
    files = tuple(dict.fromkeys(f for k in found for f in k.files))
    return Kernel("all", files, dtype, "\n".join(k.body for k in found)).text("cpu")


def chain(dtype):
    return gradient.contiguous(3, dtype, tuple(gradient.form(s) for s in catalogue.FULL_CHAIN))


@pytest.fixture(scope="module", params=DTYPES)
def native(request, tmp_path_factory):
    """call(name, *arguments) of the library of one dtype, and the dtype."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++, c++ or $CXX) on this machine")
    dtype = request.param
    folder = tmp_path_factory.mktemp("native")
    (folder / "all.cpp").write_text(together(dtype))
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    built = subprocess.run(
        [*command, "all.cpp", "-o", "all.so"], cwd=folder, capture_output=True, text=True
    )
    if built.returncode and dtype == "float16" and "_Float16" in built.stderr:
        pytest.skip("the compiler has no float16")
    assert not built.returncode, built.stderr
    library = ctypes.CDLL(str(folder / "all.so"))

    def call(name, *arguments):
        getattr(library, f"gradhook_{name}_{dtype}")(*map(argument, arguments))

    return call, np.dtype(dtype)


def argument(value):
    if value is None:
        return ctypes.c_void_p()
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_longlong(value) if isinstance(value, int) else value


def number(value, dtype):
    return (ctypes.c_double if dtype == np.float64 else ctypes.c_float)(value)


def random(dtype, *shape):
    return RNG.standard_normal(shape).astype(dtype)


def expect(found, reference):
    bound = TOLERANCE[found.dtype.name] * max(1.0, float(np.abs(reference).max()))
    np.testing.assert_allclose(found.astype("f8"), reference, rtol=0, atol=bound)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_accumulate(native, count):
    call, dtype = native
    arrays = [random(dtype, 100) for _ in range(count)]
    out = np.empty(100, dtype)
    call(f"accumulate_{count}", *arrays, out, 100)
    wide = np.float32 if dtype == np.float16 else dtype
    total = arrays[0].astype(wide)
    for array in arrays[1:]:
        total = total + array.astype(wide)
    np.testing.assert_array_equal(out, total.astype(dtype))  # bit for bit


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_and_its_gradient(native, name):
    call, dtype = native
    x, g, out = random(dtype, ROWS, N), random(dtype, ROWS, N), np.empty((ROWS, N), dtype)
    call(name, x, out, ROWS, N)
    expect(out, getattr(XP, name)(x.astype("f8"), axis=-1))
    found = np.empty_like(out)
    call(f"{name}_vjp", g, out, found, ROWS, N)
    expect(found, getattr(XP, f"{name}_vjp")(g.astype("f8"), out.astype("f8"), axis=-1))


def test_layer_norm_and_its_gradient(native):
    call, dtype = native
    x, g, out = random(dtype, ROWS, N), random(dtype, ROWS, N), np.empty((ROWS, N), dtype)
    weight, bias, eps = random(dtype, N), random(dtype, N), number(1e-5, dtype)
    wide = [a.astype("f8") for a in (x, weight, bias)]
    call("layer_norm", x, weight, bias, out, eps, ROWS, N)
    expect(out, XP.layer_norm(*wide, axis=-1, eps=1e-5))
    call("layer_norm", x, None, None, out, eps, ROWS, N)
    expect(out, XP.layer_norm(wide[0], axis=-1, eps=1e-5))
    by_weight = np.empty((ROWS, N), np.float32 if dtype == np.float16 else dtype)
    call("layer_norm_vjp", g, x, weight, out, by_weight, eps, ROWS, N)
    reference = XP.standardize_vjp(g.astype("f8"), *wide[:2], axis=-1, eps=1e-5)
    expect(out, reference[0])
    expect(by_weight, reference[1])


def test_sums_over_axes(native):
    call, dtype = native
    x = random(dtype, 3, 20, N)
    rows, columns = np.empty((3, 20, 1), dtype), np.empty((3, 1, N), dtype)
    call("row_sum", x, rows, 60, N)
    call("column_sum", x, columns, 3, 20, N)
    expect(rows, x.astype("f8").sum(-1, keepdims=True))
    expect(columns, x.astype("f8").sum(1, keepdims=True))


def test_all_gradients_of_layer_norm_at_once(native):
    call, dtype = native
    x, g, out = random(dtype, ROWS, N), random(dtype, ROWS, N), np.empty((ROWS, N), dtype)
    weight, by_weight, by_bias = random(dtype, N), np.empty(N, dtype), np.empty(N, dtype)
    arrays = (g, x, weight, out, by_weight, by_bias)
    call("layer_norm_vjp_all", *arrays, number(1e-5, dtype), ctypes.c_int(1), ROWS, N)
    wide = [a.astype("f8") for a in (g, x, weight)]
    shapes = {"weight_shape": (N,), "bias_shape": (N,)}
    reference = XP.layer_norm_vjp(*wide, axis=-1, eps=1e-5, **shapes)
    for found, expected in zip((out, by_weight, by_bias), reference, strict=True):
        expect(found, expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_losses_of_classes_and_their_gradients(native, name, reduction):
    call, dtype = native
    x, weight = random(dtype, 2, N, 3), abs(random(dtype, N))
    target = np.array([[0, 34, -100], [5, 5, 1]])
    mean, each = ctypes.c_int(reduction == "mean"), reduction == "none"
    options = {"ignore_index": -100, "reduction": reduction, "label_smoothing": 0.1}
    numbers = (3, -100, number(0.1, dtype), mean)
    out = np.empty(target.shape if each else (), dtype)
    places = (None, out) if each else (out, None)
    call(name, x, target, weight, *places, None, None, *numbers, 6, N)
    wide = weight.astype("f8")
    expect(out, getattr(XP, name)(x.astype("f8"), target, wide, **options))
    g, by_x = random(dtype, *out.shape), np.empty_like(x)
    given, rest = ((g,), (by_x, None)) if name == "nll_loss" else ((g, x), (by_x, None))
    call(f"{name}_input", *given, target, weight, *rest, *numbers, ctypes.c_int(each), 6, N)
    formula = getattr(XP, f"{name}_input")
    shape = {"shape": x.shape} if name == "nll_loss" else {}
    arrays = [a.astype("f8") for a in given]
    expect(by_x, formula(*arrays, target, wide, **options, **shape))
    total = np.empty((), np.float32 if dtype == np.float16 else dtype)
    call("class_shares", target, weight, total, None, None, -100, 6, N)
    np.testing.assert_allclose(total, wide[target[target >= 0]].sum(), rtol=1e-6)


def test_products_of_any_strides(native):
    call, dtype = native
    x, y, bias = random(dtype, 2, 3, 5, 4), random(dtype, 2, 3, 7, 4), random(dtype, 7)
    out, sums = np.empty((2, 3, 5, 7), dtype), np.empty(5, dtype)
    record = np.zeros((), small_product.TYPE)
    record["sizes"] = (2, 3, 5, 7, 4)
    record["left"], record["right"] = (60, 20, 4, 1), (84, 28, 1, 4)
    call("product", x, y, bias, out, None, by_value(record))
    wide = [a.astype("f8") for a in (x, y)]
    expect(out, wide[0] @ wide[1].swapaxes(-1, -2) + bias)
    record["sizes"] = (1, 1, 5, 7, 4)
    call("product", x, y, None, out, sums, by_value(record))
    expect(out[0, 0], wide[0][0, 0] @ wide[1][0, 0].T)
    expect(sums, wide[0][0, 0].sum(1))


def test_the_total_of_all_elements(native):
    call, dtype = native
    x, out = random(dtype, 300), np.empty((), dtype)
    call("total", x, out, None, None, 300, 300)
    expect(out, x.astype("f8").mean())


def test_arrays_side_by_side(native):
    call, dtype = native
    x, y, out = random(dtype, 3, 20), random(dtype, 3, 20), np.empty((3, 2, 20), dtype)
    call("join_2", x, y, out, 20, 60)
    np.testing.assert_array_equal(out, np.stack([x, y], 1))


def test_a_bias_is_added_to_every_row(native):
    call, dtype = native
    out, bias = random(dtype, ROWS, N), random(dtype, N)
    expected = out.astype("f8") + bias
    call("add_bias", out, bias, ROWS, N)
    expect(out, expected)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_and_its_gradient(native, approximate):
    call, dtype = native
    name = "gelu" if approximate == "none" else "gelu_tanh"
    x, g, out = random(dtype, 200), random(dtype, 200), np.empty(200, dtype)
    call(name, x, out, 200)
    expect(out, XP.gelu(x.astype("f8"), approximate=approximate))
    call(f"{name}_vjp", g, x, out, 200)
    expect(out, XP.gelu_vjp(g.astype("f8"), x.astype("f8"), approximate=approximate))


def table_of(arrays):
    """The table of tensors as a buffer, and ctypes' way to pass it by value."""
    rows = len(arrays[0])
    table = np.zeros((), optimizer.table_type(rows))
    for k in range(rows):
        table["data"][k, : len(arrays)] = [a[k].ctypes.data for a in arrays]
    table["size"][: len(arrays)] = [a[0].size for a in arrays]
    table["count"] = len(arrays)
    return by_value(table)


def by_value(record):
    class Bytes(ctypes.Structure):
        _fields_ = (("data", ctypes.c_longlong * (record.nbytes // 8)),)

    return Bytes.from_buffer_copy(record.tobytes())


def test_fill_and_squares_over_several_tensors(native):
    call, dtype = native
    arrays = [random(dtype, n) for n in (3, 1, 50)]
    wide = np.float32 if dtype == np.float16 else dtype
    squares, norm = np.zeros(1, wide), np.zeros((), dtype)
    before = [a.astype("f8") for a in arrays]
    table = table_of([(a,) for a in arrays])
    raw = {"squares": (squares, 8192), "clip": (squares, 1, number(1, dtype), norm, 8192)}
    for name, rest in raw.items():
        call(name, table, *rest)
    expected = sum((b**2).sum() for b in before) ** 0.5
    expect(norm, expected)
    for a, b in zip(arrays, before, strict=True):
        expect(a, b / (expected + 1e-6))
    call("fill_1", table, number(7, dtype), 8192)
    assert all((a == 7).all() for a in arrays)


def test_a_chain_of_device_hooks_and_its_notes(native):
    call, dtype = native
    arrays = [random(dtype, 500) for _ in range(3)]
    first, norm, second = np.zeros(80), np.zeros(80), np.zeros(80)
    norm[9] = 16.0  # the squares of the gradient before
    out, partials = np.empty(500, dtype), np.zeros(16)
    numbers = [number(v, dtype) for v in (0.5, -1, 1, 0, 1, -1, 1)]
    decays = [ctypes.c_double(0.9), ctypes.c_double(0)]
    call("gradient_3", *arrays, out, first, norm, second, partials, 500, *numbers, *decays)
    g = np.clip(sum(a.astype("f8") for a in arrays) * 0.5, -1, 1)
    expect(out, g * (1 / (4 + 1e-6)))
    assert first[7] == 500 and first[16:].sum() == 500 - first[4]
    np.testing.assert_allclose(first[2:4], [g.sum(), (g * g).sum()], rtol=5e-3, atol=0.1)
    np.testing.assert_allclose(second[:2], [-0.25, 0.25], rtol=5e-3)


def laid(shape, *axes):
    """The arguments that end a call of a kernel of rows along these axes."""
    found = layouts.layout(shape, axes)
    return (*map(int, found.numbers), 0, found.rows, found.length)


def wide_of(dtype):
    return np.float32 if dtype == np.float16 else dtype


def test_a_norm_by_channels_and_all_its_gradients(native):
    call, dtype = native
    x, g, out = (random(dtype, 4, 3, 5) for _ in range(3))
    weight, bias, eps = random(dtype, 3, 1), random(dtype, 3, 1), number(1e-5, dtype)
    by_weight, by_bias = (np.empty((3, 1), wide_of(dtype)) for _ in range(2))
    wide = [a.astype("f8") for a in (g, x, weight, bias)]
    rows = laid(x.shape, 0, 2)
    call("norm", x, weight, bias, out, eps, 5, 3, *rows)
    expect(out, XP.batch_norm(*wide[1:], axis=(0, 2), eps=1e-5))
    call("norm_vjp_all", g, x, weight, out, by_weight, by_bias, eps, 5, 3, 20, *rows)
    shapes = {"weight_shape": (3, 1), "bias_shape": (3, 1)}
    reference = XP.layer_norm_vjp(*wide[:3], axis=(0, 2), eps=1e-5, **shapes)
    for found, expected in zip((out, by_weight, by_bias), reference, strict=True):
        expect(found.astype(dtype), expected)
    elementwise = np.empty(x.shape, wide_of(dtype))
    call("norm_vjp", g, x, weight, out, elementwise, eps, 5, 3, *rows)
    expect(elementwise, XP.standardize_vjp(*wide[:3], axis=(0, 2), eps=1e-5)[1])


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_variance_and_its_gradient(native, axes):
    call, dtype = native
    x = random(dtype, 7, 9)
    out = np.empty([n for k, n in enumerate(x.shape) if k not in axes], dtype)
    rows, found = laid(x.shape, *axes), np.empty_like(x)
    factor = number(2 / (rows[-1] - 1), dtype)
    wide = x.astype("f8")
    call("variance", x, out, number(rows[-1] - 1, dtype), 1, *rows)
    expect(out, wide.std(axis=axes, ddof=1))
    g = random(dtype, *out.shape)
    options = {"axis": axes, "correction": 1, "keepdims": False}
    call("variance_vjp", g, x, out, found, factor, *rows)
    expect(found, XP.std_vjp(g.astype("f8"), wide, out.astype("f8"), **options))
    call("variance_vjp", g, x, None, found, factor, *rows)
    expect(found, XP.var_vjp(g.astype("f8"), wide, **options))


def test_running_moments(native):
    call, dtype = native
    x, mean, var = random(dtype, 4, 3, 5), random(dtype, 3), abs(random(dtype, 3))
    found = np.empty_like(mean), np.empty_like(var)
    call("running_moments", x, mean, var, *found, number(0.1, dtype), *laid(x.shape, 0, 2))
    wide = [a.astype("f8") for a in (x, mean, var)]
    for one, expected in zip(
        found, XP.running_moments(*wide, axis=(0, 2), momentum=0.1), strict=True
    ):
        expect(one, expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scans_and_their_gradients(native, axis):
    call, dtype = native
    x, g = random(dtype, 4, 6, 5), random(dtype, 4, 6, 5)
    x[0, 0, 0] = x[3, 5, 4] = 0
    wide, by, rows = x.astype("f8"), g.astype("f8"), laid(x.shape, axis)
    out, index = np.empty_like(x), np.empty(x.shape, np.int64)
    for name in ("cumsum", "reverse_cumsum", "cumprod", "logcumsumexp"):
        call(name, x, out, *rows)
        expect(out, getattr(XP, name)(wide, axis=axis))
    y = out.copy()
    call("logcumsumexp_vjp", g, x, y, out, *rows)
    expect(out, XP.logcumsumexp_vjp(by, wide, y.astype("f8"), axis=axis))
    call("cumprod_vjp", g, x, np.empty(x.shape, wide_of(dtype)), out, *rows)
    expect(out, XP.cumprod_vjp(by, wide, axis=axis))
    for name in ("cummax", "cummin"):
        call(name, x, out, index, *rows)
        values, places = getattr(XP, name)(x, axis=axis)
        np.testing.assert_array_equal(out, values)
        np.testing.assert_array_equal(index, places)


def test_what_index_arrays_pick_and_writes_and_sums_there(native):
    call, dtype = native
    x, i, j = random(dtype, 4, 6, 5, 3), np.array([3, -1, 3, 0]), np.array([0, 4, 0, -5])
    index, none, wide = (slice(None), i, j), np.iinfo("i8").min, x.astype("f8")
    where = [i, j, 6, 5, 4, 3]
    out = np.empty((4, 4, 3), dtype)
    call("pick_2", *where, out.size, x, out)
    np.testing.assert_array_equal(out, x[index])
    for name, more in (("put", [out]), ("clear", []), ("sum", [out])):
        found = x.copy()
        last = [none, number(2, dtype)] if name == "sum" else []
        call(f"pick_{name}_2", *where, out.size, *more, found, *last)
        value = {"put": out, "clear": 0.0, "sum": 2 * out.astype("f8")}[name]
        value = np.broadcast_to(np.asarray(value, "f8"), out.shape)
        expect(found, XP.index_put(wide, value, index=index, accumulate=name == "sum"))
    table, at, rows = np.zeros((8, 5), dtype), np.array([3, 1, 3, 2]), x[0, :4, :, 0].copy()
    call("pick_sum_1", at, 8, 4, 5, 20, rows, table, 2, number(1, dtype))
    expect(table, XP.scatter_rows(rows.astype("f8"), at, shape=(8, 5), skip=2))
    one, outside = np.empty(2, dtype), np.array([6, -7])
    call("pick_1", outside, 6, 2, 1, 2, x[0, :, 0, 0].copy(), one)
    assert np.isnan(one).all()


def test_what_an_index_picks_and_the_sums_of_it(native):
    call, dtype = native
    x, index = random(dtype, 4, 6, 5), RNG.integers(0, 6, (4, 9, 5))
    out, numbers = np.empty((4, 9, 5), dtype), (180, 9, 5, 6)
    call("gather", x, index, out, *numbers)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index, 1))
    back = np.zeros_like(x)
    call("scatter_sum", out, index, back, *numbers)
    expect(back, XP.scatter_zeros(out.astype("f8"), index, axis=1, shape=x.shape))
    outside = np.array([[[-1], [6], [5]]])
    call("gather", x[:1, :, :1].copy(), outside, out, 3, 3, 1, 6)
    assert np.isnan(out.flat[:3]).tolist() == [True, True, False]
    call("scatter_sum", np.ones((1, 3, 1), dtype), outside, back, 3, 3, 1, 6)  # writes only at 5


def test_kernel_files_know_no_shared_memory_and_no_threads():
    for name in kernels.names():
        text = kernels.source(name)
        for word in ("__shared__", "threadIdx", "blockIdx", "__syncthreads", "atomic", "__shfl"):
            assert word not in text, f"kernels/{name}.cu names {word}: that is target_cuda.h's"
