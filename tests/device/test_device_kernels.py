"""Hand-written kernels: each equals its formula, within the tolerance stated for its dtype."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import backend, kernels, profiler
from gradhook.kernels import elements, loss
from gradhook.kernels.registry import KERNELS
from gradhook.ops.namespace import FormulaNamespace, table_namespace

pytestmark = pytest.mark.cuda

# Relative to the largest element: float16 rounds the result once, the formula after every step.
TOLERANCE = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-14}
RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, 35)) * 3
LONG = RNG.standard_normal((3, 1500))
G = RNG.standard_normal((6, 35))
W, B = RNG.standard_normal(35), RNG.standard_normal(35)
LOG = np.log(np.exp(X) / np.exp(X).sum(1, keepdims=True))
TARGET = np.array([1, 34, -100, 0, 7, 7])
CUBE = RNG.standard_normal((3, 40, 35))

CLASSES = abs(TARGET) % 35
ALL_IGNORED = np.full(6, 3)
GRID = RNG.integers(0, 35, (3, 4, 10))
MANY = RNG.integers(0, 7, 6000)  # more rows than a grid has blocks
NORM = {"eps": 1e-5}
SQUARE, TALL = RNG.standard_normal((35, 35)), RNG.standard_normal((70, 35))
BATCH = RNG.standard_normal((2, 10, 3, 4)).transpose(0, 2, 1, 3)
SCORES = BATCH @ BATCH.swapaxes(-1, -2)
LOSSES = [  # (scores, targets, weights), attributes
    ((LOG, TARGET), {"ignore_index": -100}),
    ((LOG, CLASSES), {"reduction": "sum"}),
    ((LOG, CLASSES), {"reduction": "none", "ignore_index": 7}),
    ((LOG[0], np.array(3)), {}),
    ((LOG, TARGET, abs(W)), {"ignore_index": -100, "label_smoothing": 0.2}),
    ((LOG, CLASSES, abs(W)), {"reduction": "none", "label_smoothing": 0.1}),
    ((LOG, ALL_IGNORED), {"ignore_index": 3, "reduction": "sum"}),
    ((RNG.standard_normal((3, 35, 4, 10)), GRID), {"ignore_index": 5}),
    ((LONG, np.array([3, 1499, 0])), {"label_smoothing": 0.3}),
    ((RNG.standard_normal((6000, 7)), MANY, abs(W[:7])), {"ignore_index": 2}),
]


WIDE, IMAGES = RNG.standard_normal((5, 300)), RNG.standard_normal((3, 4, 50))
SPREADS = [  # x, attributes
    ((X,), {"axis": None}),
    ((X,), {"axis": -1, "correction": 0}),
    ((LONG,), {"axis": (1,), "keepdims": True}),
    ((WIDE,), {"axis": 0}),
    ((CUBE,), {"axis": (0, 2), "correction": 2}),
    ((CUBE,), {"axis": 1}),
]
SCANS = [  # x, the axis
    ((X,), {"axis": -1}),
    ((X,), {"axis": 0}),
    ((WIDE,), {"axis": 0}),  # a thread a row
    ((LONG / 9,), {"axis": 1}),  # a block a row
    ((CUBE,), {"axis": 1}),
    ((W,), {"axis": 0}),
]
TIES = ((np.array([1.0, 3, 3, 2, np.nan, 5, np.nan, -np.inf]),), {"axis": 0})
PICKS = RNG.integers(0, 6, (3, 9, 35))


def _all(attributes):
    """The attributes that a gradient names."""
    return {"axis": None, "correction": 1, "keepdims": False, **attributes}


def _gradient(targets, attributes):
    """The gradient of a loss of these targets."""
    if attributes.get("reduction") == "none":
        return RNG.standard_normal(targets.shape)
    return np.array(2.0)


# name -> (arrays, attributes) each
SAMPLES = {
    "softmax": [((X,), {"axis": -1}), ((LONG,), {"axis": 1}), ((CUBE,), {"axis": 2})],
    "log_softmax": [((X,), {"axis": -1}), ((LONG,), {"axis": 1}), ((X[0],), {"axis": 0})],
    "softmax_vjp": [((G, np.exp(LOG)), {"axis": -1})],
    "log_softmax_vjp": [((G, LOG), {"axis": 1})],
    "layer_norm": [
        ((X, W, B), {"axis": -1, "eps": 1e-5}),
        ((X,), {"axis": (1,), "eps": 1e-3}),
        ((CUBE, CUBE[0]), {"axis": (1, 2), "eps": 1e-5}),
    ],
    "standardize_vjp": [
        ((G, X, W), {"axis": -1, "eps": 1e-5}),
        ((G, X), {"axis": (1,), "eps": 1e-5}),
        ((CUBE, CUBE[::-1].copy(), CUBE[0, :, :1]), {"axis": (0, 2), "eps": 1e-5}),
        ((G, X, W), {"axis": 0, "eps": 1e-5}),
    ],
    "sum_to": [
        ((X,), {"shape": (35,)}),
        ((X,), {"shape": (6, 1)}),
        ((CUBE,), {"shape": (3, 1, 35)}),
        ((CUBE,), {"shape": (1, 35)}),
        ((CUBE,), {"shape": ()}),
    ],
    "nll_loss": LOSSES,
    "cross_entropy": LOSSES,
    "nll_loss_input": [
        ((_gradient(t, o), t, *w), {**o, "shape": x.shape}) for (x, t, *w), o in LOSSES
    ],
    "cross_entropy_input": [((_gradient(t, o), x, t, *w), o) for (x, t, *w), o in LOSSES],
    "layer_norm_vjp": [
        ((G, X, W), {**NORM, "axis": (-1,), "weight_shape": (35,), "bias_shape": (35,)}),
        (
            (CUBE[::-1].copy(), CUBE, CUBE[0, :, :1]),
            {**NORM, "axis": (0, 2), "weight_shape": (40, 1), "bias_shape": (40, 1)},
        ),
        (
            (WIDE, WIDE[::-1].copy(), WIDE[0]),
            {**NORM, "axis": (0,), "weight_shape": (300,), "bias_shape": (300,)},
        ),
        (
            (IMAGES[:1], IMAGES[1:2], IMAGES[0, :, :1]),
            {**NORM, "axis": (1, 2), "weight_shape": (4, 1), "bias_shape": (4, 1)},
        ),
        (
            (CUBE[::-1].copy(), CUBE, CUBE[0]),
            {**NORM, "axis": (1, 2), "weight_shape": (40, 35), "bias_shape": (40, 35)},
        ),
    ],
    "batch_norm": [
        ((CUBE, CUBE[0, :, :1], CUBE[1, :, :1]), {"axis": (0, 2), "eps": 1e-5}),  # channels
        ((CUBE,), {"axis": (0, 2), "eps": 1e-3}),
        ((X, W, B), {"axis": (0,), "eps": 1e-5}),
        ((WIDE, WIDE[0]), {"axis": (0,), "eps": 1e-5}),  # a thread a row
        ((IMAGES, CUBE[0, :4, :1]), {"axis": (2,), "eps": 1e-5}),  # instances
        ((IMAGES[:, :, :, None], CUBE[0, :4, :1, None]), {"axis": (2, 3), "eps": 1e-5}),
    ],
    "running_moments": [
        ((CUBE, CUBE[0, :, 0], abs(CUBE[1, :, 0])), {"axis": (0, 2), "momentum": 0.1}),
        ((WIDE, WIDE[0], abs(WIDE[1])), {"axis": (0,), "momentum": 0.3}),
        ((X[:1], W, abs(B)), {"axis": (0,), "momentum": 0.5}),
    ],
    "var": SPREADS,
    "std": [*SPREADS, ((X[:, :1],), {"axis": 1, "correction": 0})],
    "var_vjp": [
        ((np.asarray(np.var(x, axis=a.get("axis"), keepdims=bool(a.get("keepdims")))), x), _all(a))
        for (x,), a in SPREADS
    ],
    "std_vjp": [
        ((np.sin(s), x, s), _all(a))
        for (x,), a in SPREADS
        for s in [np.asarray(FormulaNamespace(np).std(x, **a))]
    ],
    "cumsum": SCANS,
    "reverse_cumsum": SCANS,
    "cumprod": [((np.cos(x),), a) for (x,), a in SCANS],
    "logcumsumexp": [*SCANS, ((np.array([-np.inf, -np.inf, 0.5, np.inf, 1]),), {"axis": 0})],
    "cummax": [*SCANS, TIES],
    "cummin": [*SCANS, TIES],
    "cumprod_vjp": [((np.sin(x), np.where(x < 0.1, np.cos(x), x * 0)), a) for (x,), a in SCANS],
    "logcumsumexp_vjp": [
        ((np.sin(x), x, FormulaNamespace(np).logcumsumexp(x, **a)), a) for (x,), a in SCANS
    ],
    "gather": [((CUBE, PICKS), {"axis": 1}), ((X, PICKS[0, :6, :35]), {"axis": 0})],
    "gather_padded": [((CUBE, PICKS), {"axis": 1, "shape": PICKS.shape})],
    "scatter_zeros": [((CUBE[:, :9], PICKS), {"axis": 1, "shape": CUBE.shape})],
    "scatter_add": [((CUBE, PICKS, CUBE[:, :9]), {"axis": 1}), ((W, CLASSES, B[:6]), {"axis": -1})],
    "scatter_rows": [
        ((X, CLASSES), {"shape": (40, 35)}),
        ((CUBE[:2, :3], CLASSES.reshape(2, 3)), {"shape": (35, 35), "skip": 7}),
    ],
    "index_accumulate": [
        ((CUBE[:, :6], CLASSES), {"axis": 1, "shape": (*CUBE.shape[:1], 40, *CUBE.shape[2:])}),
        ((X, CLASSES), {"axis": 0, "shape": (36, 35)}),
    ],
    "index_add": [
        ((X, CLASSES[:3] % 6, X[:3]), {"axis": 0, "alpha": 2}),
        ((B, CLASSES, B[..., :6]), {"axis": -1}),
    ],
    "put_index": [
        ((X,), {"index": (CLASSES,), "shape": (36, 35)}),
        ((X[:, :6],), {"index": (slice(None), CLASSES - 35), "shape": X.shape}),
    ],
    "index_put": [
        ((X, X[:3]), {"index": (CLASSES[:3] % 6,), "accumulate": True}),
        ((X, W[:6]), {"index": (np.arange(6), CLASSES)}),
        ((CUBE, CUBE[:, :6, 0]), {"index": (slice(None), CLASSES, CLASSES), "accumulate": True}),
    ],
    "take_index": [
        ((X,), {"index": (CLASSES % 6,)}),
        ((CUBE,), {"index": (slice(None), CLASSES.reshape(2, 3) - 35, CLASSES.reshape(2, 3))}),
        ((CUBE,), {"index": (CLASSES % 3, CLASSES, CLASSES - 35)}),
    ],
    "clear_index": [((X,), {"index": (CLASSES % 6, CLASSES)}), ((W,), {"index": (CLASSES,)})],
    "linear": [
        ((X, SQUARE, W), {}),
        ((CUBE, SQUARE), {}),
        ((X[0], SQUARE, W), {}),
        ((X, TALL), {}),
    ],
    "linear_input": [((X, SQUARE), {}), ((CUBE, TALL.T), {})],
    "linear_weight": [((X, G), {}), ((CUBE, CUBE), {})],
    "linear_bias": [((G,), {}), ((CUBE,), {})],
    "linear_parameters": [
        ((X, G), {}),
        ((CUBE, CUBE[:, :, :32].copy()), {}),
        ((G.T, TALL[:35].T.copy().T), {}),
    ],
    "matmul": [((X, SQUARE), {}), ((BATCH, BATCH.swapaxes(-1, -2)), {}), ((X.T, G), {})],
    "matmul_left": [((SCORES, BATCH.swapaxes(-1, -2)), {"shape": BATCH.shape})],
    "matmul_right": [((BATCH.swapaxes(0, 1), BATCH.swapaxes(0, 1)), {"shape": BATCH.shape})],
    "stack": [
        ((X, G), {"axis": 0}),
        ((X, G, X), {"axis": 1}),
        ((CUBE, CUBE), {"axis": -1}),
        ((X[0], G[0]), {"axis": -2}),
    ],
    "concat": [((X, G), {"axis": 0}), ((CUBE, CUBE, CUBE), {"axis": 1}), ((X, G), {"axis": -1})],
    "sum": [((X,), {}), ((CUBE,), {"keepdims": True})],
    "mean": [((X,), {}), ((CUBE,), {"keepdims": True})],
    "expand_mean": [((np.array(3.0),), {"shape": (2, 3)})],
    "relu": [((X,), {}), ((CUBE[:, ::3].T,), {})],
    "relu_vjp": [((G, X), {}), ((G.T, X.T), {})],
    "gelu": [((X,), {}), ((X,), {"approximate": "tanh"}), ((CUBE[:, ::3].T,), {})],
    "gelu_vjp": [
        ((G, X), {"approximate": "none"}),
        ((G, X), {"approximate": "tanh"}),
        ((G.T, X.T), {"approximate": "none"}),
    ],
}
CASES = [
    pytest.param(name, arrays, attributes, id=f"{name}-{k}")
    for name, samples in SAMPLES.items()
    for k, (arrays, attributes) in enumerate(samples)
]


ELSEWHERE = {
    "sparse_matmul",
    "sparse_sampled",
}  # their pattern is on a device: tests/test_sparse.py


def put(array, dtype):
    array = np.asarray(array)
    cast = array if array.dtype.kind == "i" else array.astype(dtype)  # keeps the layout
    return backend.to_device(cast, "cuda")


def test_every_kernel_has_a_sample():
    assert set(SAMPLES) == set(KERNELS) - ELSEWHERE


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "arrays", "attributes"), CASES)
def test_a_kernel_equals_its_formula(name, arrays, attributes, dtype):
    given = [a if a.dtype.kind == "i" else a.astype(dtype) for a in map(np.asarray, arrays)]
    wide = [a if a.dtype.kind == "i" else a.astype("f8") for a in given]
    expected = getattr(FormulaNamespace(np), name)(*wide, **attributes)
    on_device = [put(a, dtype) for a in given]
    if "index" in attributes:
        picks = [put(i, dtype) if isinstance(i, np.ndarray) else i for i in attributes["index"]]
        attributes = {**attributes, "index": tuple(picks)}
    with profiler.launches() as launched:
        found = getattr(table_namespace(backend.cupy()), name)(*on_device, **attributes)
    counts_first = name.endswith("_input") and len(found) > loss.COUNTED_BY_EACH_ROW[0]
    assert launched.count == 1 + counts_first, "the kernel declined its sample"
    several = isinstance(expected, tuple)
    pairs = zip(found, expected, strict=True) if several else [(found, expected)]
    for one, reference in pairs:
        if several and one is found[1] and len(arrays) == 2:
            continue  # without a weight nobody reads its gradient
        values = backend.to_host(one).astype("f8")
        assert several or one.dtype == dtype
        assert one.shape == reference.shape
        finite = np.abs(reference, where=np.isfinite(reference), out=np.zeros(reference.shape))
        bound = TOLERANCE[dtype] * max(1.0, float(finite.max()))
        np.testing.assert_allclose(values, reference, rtol=0, atol=bound)


@pytest.mark.parametrize("axis", [0, -1])
def test_what_a_kernel_declines_runs_as_the_formula(axis):
    x = put(X, "float32").T if axis == -1 else put(X, "float32")
    with profiler.launches() as launched:
        found = table_namespace(backend.cupy()).softmax(x, axis=axis)
    assert launched.count == 0
    reference = FormulaNamespace(np).softmax(backend.to_host(x), axis=axis)
    np.testing.assert_allclose(backend.to_host(found), reference, rtol=1e-5)


def test_recording_bypasses_the_kernels_of_formulas_and_differentiates_them():
    x = gradhook.tensor(X, device="cuda", requires_grad=True)
    y = gradhook.softmax(x, -1)
    weights = gradhook.tensor(G, device="cuda")
    (first,) = gradhook.autograd.grad((y * weights).sum(), x, create_graph=True)
    (second,) = gradhook.autograd.grad((first * first).sum(), x)
    z = gradhook.tensor(X, device="cpu", requires_grad=True)
    (one,) = gradhook.autograd.grad(
        (gradhook.softmax(z, -1) * gradhook.tensor(G, device="cpu")).sum(), z, create_graph=True
    )
    (two,) = gradhook.autograd.grad((one * one).sum(), z)
    np.testing.assert_allclose(
        second.detach().cpu().numpy(), two.detach().numpy(), rtol=1e-10, atol=1e-14
    )


def test_cross_entropy_takes_one_launch_forward_and_one_backward():
    x = gradhook.tensor(X.astype("f4"), device="cuda", requires_grad=True)
    target = gradhook.tensor(TARGET, device="cuda")
    with profiler.launches() as launched:
        gradhook.nn.functional.cross_entropy(x, target).backward()
    names = [e.name.removeprefix("gradhook_").removesuffix("_float32") for e in launched.events]
    assert names == ["cross_entropy", "cross_entropy_input"]


def test_a_target_that_is_no_class_makes_the_loss_and_its_gradient_nan():
    x = gradhook.tensor(X.astype("f4"), device="cuda", requires_grad=True)
    target = gradhook.tensor([1, 35, -1, 0, 7, 7], device="cuda")
    losses = gradhook.nn.functional.cross_entropy(x, target, reduction="none")
    gradhook.nn.functional.cross_entropy(x, target, reduction="sum").backward()
    assert np.isnan(losses.detach().cpu().numpy()).tolist() == [0, 1, 1, 0, 0, 0]
    assert np.isnan(x.grad.cpu().numpy()).all(axis=1).tolist() == [0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_gradients_of_one_slot_are_one_launch(count, device_counters):
    arrays = [put(RNG.standard_normal(1000), "float32") for _ in range(count)]
    device_counters(reset=True)
    with profiler.launches() as launched:
        total = kernels.accumulate(arrays)
    assert device_counters()["launches"] == 1
    if count > 1:  # a single gradient is copied by CuPy
        assert launched.count == 1 and launched.nbytes == (count + 1) * total.nbytes


def test_accumulate_broadcasts_and_mixes_dtypes():
    given = [
        np.float16([[1], [2]]), np.float32([[0.5, 1, 2]]), np.float64(3), np.int64([[1, 2, 3]])
    ]  # fmt: skip
    total = kernels.accumulate([put(a, a.dtype) for a in given], dtype=np.float16)
    assert total.dtype == np.float16
    np.testing.assert_array_equal(backend.to_host(total), sum(a.astype("f4") for a in given))


def philox(counter, key):
    """Philox-4x32-10 by Python's integers. Source: Salmon et al., SC 2011."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_philox_is_random123s():
    # The known answers of Random123's kat_vectors.
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-6), ("f8", 1e-15)])
@pytest.mark.parametrize("shape", [(), (3, 7), (1000,)])
def test_a_dropout_mask_is_the_counters_own(shape, dtype, tolerance):
    seed, offset, p = 2**63 + 5, 2**40 + 3, 0.3
    mask = backend.to_host(elements.dropout_factor(shape, np.dtype(dtype), p, seed, offset))
    key = (seed & 0xFFFFFFFF, seed >> 32)
    expected = np.empty(mask.size, dtype)
    for i in range(mask.size):
        block = i // 4
        words = philox([block & 0xFFFFFFFF, block >> 32, offset & 0xFFFFFFFF, offset >> 32], key)
        drawn = np.float32(words[i % 4] >> 8) * np.float32(2**-24)
        expected[i] = 1 / (1 - np.dtype(dtype).type(p)) if drawn >= np.float32(p) else 0
    np.testing.assert_allclose(mask.reshape(-1), expected, rtol=tolerance)
