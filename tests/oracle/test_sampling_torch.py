"""Sampling at grids, fractional pooling, CTC and the further losses against PyTorch."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

import gradhook
from gradhook.nn import functional as F

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(3)


def same(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), tolerance, tolerance
    )


def compare(run, *arrays, tolerance=1e-10):
    """run(lib, *tensors) with its results and gradients equal in both libraries."""
    found = []
    for lib in (gradhook, torch):
        inputs = [lib.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        out = run(lib, *inputs)
        seed = lib.cos(lib.arange(out.numel(), dtype=out.dtype)).reshape(out.shape)
        leaves = [t for t in inputs if t.requires_grad]
        found.append([out, *lib.autograd.grad(out, leaves, seed, allow_unused=True)])
    for ours, theirs in zip(*found, strict=True):
        if theirs is None or ours is None:
            assert theirs is None or not theirs.any()
            assert ours is None or not ours.any().item()
        else:
            assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
            same(ours, theirs, tolerance)


MODES = [
    (mode, padding, align, n)
    for mode, padding, align, n in product(
        ("bilinear", "nearest", "bicubic"),
        ("zeros", "border", "reflection"),
        (False, True),
        (2, 3),
    )
    if not (mode == "bicubic" and n == 3)
]


@pytest.mark.parametrize(("mode", "padding", "align", "n"), MODES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_grid_sample_is_pytorchs_far_outside_too(mode, padding, align, n, dtype):
    x = RNG.standard_normal((2, 3, *(4, 3, 5)[-n:])).astype(dtype)
    grid = RNG.uniform(-3, 3, (2, *(2, 3, 4)[-n:], n)).astype(dtype)
    compare(
        lambda lib, a, b: lib.nn.functional.grid_sample(a, b, mode, padding, align),
        x,
        grid,
        tolerance=1e-9 if dtype == "float64" else 2e-4,
    )


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_at_the_pixels_and_the_edges_has_pytorchs_gradient(padding, align):
    x = RNG.standard_normal((1, 2, 4, 4))
    ticks = np.array([-1.0, -0.75, 0.0, 0.25, 0.75, 1.0])
    grid = np.stack(np.meshgrid(ticks, ticks), -1)[None]
    compare(
        lambda lib, a, b: lib.nn.functional.grid_sample(a, b, "bilinear", padding, align), x, grid
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e20])
def test_a_point_that_is_no_number_reads_no_memory_outside(value):
    x = gradhook.ones(1, 1, 3, 3, dtype=gradhook.float64)
    for mode, padding in product(("bilinear", "nearest", "bicubic"), ("border", "reflection")):
        grid = gradhook.full((1, 1, 2, 2), value, dtype=gradhook.float64, requires_grad=True)
        out = F.grid_sample(x, grid, mode, padding, False)
        out.sum().backward()
        found = out.detach().numpy()
        assert np.all(np.isnan(found) | np.isclose(found, 1) | np.isclose(found, 0))


@pytest.mark.parametrize(
    ("size", "align"), [*product([(2, 1, 3, 4), (2, 3, 2, 1, 3)], (False, True))]
)
def test_affine_grid_is_pytorchs(size, align):
    n = len(size) - 2
    theta = RNG.standard_normal((2, n, n + 1))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compare(lambda lib, t: lib.nn.functional.affine_grid(t, size, align), theta)
    texts = [str(w.message) for w in found]
    assert len(texts) == (2 if align and min(size[2:]) == 1 else 0) and texts[:1] == texts[1:]


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_pdist_is_pytorchs(p, n):
    compare(lambda lib, x: lib.nn.functional.pdist(x, p), RNG.standard_normal((n, 3)))


def test_the_pairs_of_many_rows_are_in_order():
    x = np.arange(2500.0)[:, None]
    first, second = np.triu_indices(2500, 1)
    np.testing.assert_array_equal(
        F.pdist(gradhook.tensor(x)).numpy(), (second - first).astype("f8")
    )


@pytest.mark.parametrize(
    ("kernel", "size", "n"),
    [(2, 3, 2), ((2, 3), (4, 1), 2), (1, 1, 2), (2, (2, 3, 1), 3), ((1, 2, 2), 2, 3)],
)
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fractional_pooling_is_pytorchs_for_the_same_samples(kernel, size, n, batched, dtype):
    x = RNG.standard_normal((2, 3, *(4, 5, 6)[-n:])).astype(dtype)[() if batched else 0]
    samples = RNG.random((2 if batched else 1, 3, n)).astype(dtype)

    def pool(lib, a, indices=False):
        f = getattr(lib.nn.functional, f"fractional_max_pool{n}d")
        drawn = lib.tensor(samples)
        return f(a, kernel, size, return_indices=indices, _random_samples=drawn)

    compare(pool, x, tolerance=1e-6)
    ours, theirs = (pool(lib, lib.tensor(x), True)[1] for lib in (gradhook, torch))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def ctc_inputs(dtype="float64"):
    x = np.log(RNG.dirichlet(np.ones(5), (9, 4))).astype(dtype)
    targets = np.array([[1, 2, 2, 3], [4, 4, 4, 4], [1, 0, 0, 0], [0, 0, 0, 0]])
    return x, targets, np.array([9, 9, 5, 3]), np.array([4, 4, 1, 0])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("form", ["padded", "joined", "tuples", "narrow"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ctc_loss_is_pytorchs_in_all_forms_of_targets(reduction, form, dtype):
    x, targets, steps, sizes = ctc_inputs(dtype)
    if form == "joined":
        targets = np.concatenate([row[:n] for row, n in zip(targets, sizes, strict=True)])

    def loss(lib, x):
        lengths = [lib.tensor(a) for a in (steps, sizes)]
        if form == "tuples":
            lengths = [tuple(a.tolist()) for a in (steps, sizes)]
        if form == "narrow":
            lengths = [a.to(lib.int32) for a in lengths]
        return lib.nn.functional.ctc_loss(x, lib.tensor(targets), *lengths, reduction=reduction)

    compare(loss, x, tolerance=1e-10 if dtype == "float64" else 2e-5)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_a_target_that_does_not_fit_gives_what_pytorch_gives(zero_infinity):
    x, targets, _, sizes = ctc_inputs()
    steps = np.array([4, 6, 1, 3])

    def loss(lib, x):
        lengths = [lib.tensor(a) for a in (steps, sizes)]
        options = {"reduction": "none", "zero_infinity": zero_infinity}
        return lib.nn.functional.ctc_loss(x, lib.tensor(targets), *lengths, **options)

    compare(loss, x)


def test_ctc_loss_without_a_batch_and_with_another_blank_is_pytorchs():
    x, targets, steps, sizes = ctc_inputs()

    def loss(lib, x):
        target = lib.tensor(targets[0, : sizes[0]])
        options = {"reduction": "none", "blank": 4}
        lengths = lib.tensor(steps[0]), lib.tensor(sizes[0])
        return lib.nn.functional.ctc_loss(x, target, *lengths, **options)

    compare(loss, x[:, 0])


def test_an_impossible_class_has_no_share_in_the_ctc_gradient():
    x, targets, steps, sizes = ctc_inputs()
    x[2, :, 0] = -np.inf  # where PyTorch's gradient is NaN
    x[5, 1] = -np.inf
    found = []
    for lib in (gradhook, torch):
        leaf = lib.tensor(x, requires_grad=True)
        lengths = [lib.tensor(a) for a in (steps, sizes)]
        losses = lib.nn.functional.ctc_loss(
            leaf, lib.tensor(targets), *lengths, reduction="none", zero_infinity=True
        )
        found.append((losses, *lib.autograd.grad(losses.sum(), leaf)))
    same(found[0][0], found[1][0])
    ours, theirs = (f[1].numpy() for f in found)
    assert not np.isnan(ours).any()
    np.testing.assert_allclose(ours[~np.isnan(theirs)], theirs[~np.isnan(theirs)], 1e-10, 1e-10)


def test_a_long_sequence_of_single_precision_keeps_its_ctc_gradient():
    x = RNG.standard_normal((400, 2, 30)).astype("float32") * 3
    targets = RNG.integers(1, 30, (2, 60))

    def loss(lib, x):
        lengths = (400, 390), (60, 33)
        return lib.nn.functional.ctc_loss(x.log_softmax(2), lib.tensor(targets), *lengths)

    compare(loss, x, tolerance=1e-4)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"reduction": "none"}])
@pytest.mark.parametrize("out", [(), (2, 3)])
@pytest.mark.parametrize("probabilities", [False, True])
def test_linear_cross_entropy_is_pytorchs(options, out, probabilities):
    x, w, b = (RNG.standard_normal(s) for s in ((4, 3), (5, *out, 3), (5, *out)))
    target = RNG.integers(0, 5, (4, *out))
    if probabilities:
        target = np.moveaxis(RNG.dirichlet(np.ones(5), (4, *out)), -1, 1)

    def loss(lib, x, w, b):
        f = lib.nn.functional.linear_cross_entropy
        return f(x, w, lib.tensor(target), linear_bias=b, **options)

    compare(loss, x, w, b)


@pytest.mark.parametrize("targets", [[0, 3, 4, 8, 9, 1], [1, 2], [9, 9, 8], [4]])
def test_adaptive_log_softmax_is_pytorchs(targets):
    layers = [
        lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4, 7], div_value=2.0, head_bias=True).double()
        for lib in (torch, gradhook)
    ]
    state = {k: v.numpy() for k, v in layers[0].state_dict().items()}
    layers[1].load_state_dict({k: gradhook.tensor(v) for k, v in state.items()})
    x = RNG.standard_normal((len(targets), 8))
    compare(
        lambda lib, x: layers[lib is gradhook](x, lib.tensor(targets)).output,
        x,
    )
    theirs, ours = (
        layer(lib.tensor(x), lib.tensor(targets)).loss
        for layer, lib in zip(layers, (torch, gradhook), strict=True)
    )
    same(ours, theirs)
    compare(lambda lib, x: layers[lib is gradhook].log_prob(x), x)
    found = [layers[lib is gradhook].predict(lib.tensor(x)) for lib in (gradhook, torch)]
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.parametrize(("size", "channels"), [(3, 2), (5, 3), (4, 2), (1, 1)])
def test_cross_map_normalisation_is_pytorchs_while_no_channel_leaves_the_window(size, channels):
    x = RNG.standard_normal((2, channels, 3, 2))
    ours, theirs = (
        lib.nn.CrossMapLRN2d(size, 0.5, 0.6, 2.0)(lib.tensor(x)) for lib in (gradhook, torch)
    )
    same(ours, theirs)


def test_gumbel_softmax_draws_classes_as_often_as_their_probabilities_say():
    gradhook.manual_seed(0)
    logits = gradhook.tensor([[0.0, 1.0, 2.0]], dtype=gradhook.float64).expand(20000, 3)
    hard = F.gumbel_softmax(logits, tau=0.7, hard=True)
    np.testing.assert_allclose(hard.mean(0).numpy(), logits[0].softmax(0).numpy(), atol=0.015)
    assert set(np.unique(hard.numpy().round(12))) == {0.0, 1.0}


def calls():
    def ones(lib, *shape, dtype="float32"):
        return lib.ones(shape, dtype=getattr(lib, dtype))

    x, grid, theta = (1, 1, 4, 4), (1, 2, 2, 2), (2, 2, 3)
    sample = [
        ((x, grid), {"mode": "x"}), ((x, grid), {"padding_mode": "y"}),
        ((x, (2, 2, 2, 2)), {}), ((x, (1, 2, 2, 3)), {}), (((1, 4, 4), grid), {}),
        (((1, 1, 4, 4, 4), (1, 2, 2, 2, 3)), {"mode": "bicubic"}), (((1, 1, 0, 4), grid), {}),
        (((1, 1, 4, 4, 4), grid), {}), (((4,), grid), {}),
    ]  # fmt: skip
    for shapes, options in sample:
        yield lambda lib, s=shapes, o=options: lib.nn.functional.grid_sample(
            *(ones(lib, *k) for k in s), align_corners=False, **o
        )
    yield lambda lib: lib.nn.functional.grid_sample(
        ones(lib, *x), ones(lib, *grid, dtype="float64"), align_corners=False
    )
    yield lambda lib: lib.nn.functional.grid_sample(
        ones(lib, *x, dtype="int64"), ones(lib, *grid, dtype="int64"), align_corners=False
    )
    for shape, size in [
        (theta, (2, 3, 4)), (theta, (2, 3, 4, 0)), (theta, (3, 3, 4, 5)), (theta, (2, 3, 4, 5, 6)),
        (theta, (2, 3, 4, 5, 6, 7)), (theta[1:], (2, 3, 4, 5)), ((2, 3, 4), (2, 3, 4, 5)),
    ]:  # fmt: skip
        yield lambda lib, t=shape, s=size: lib.nn.functional.affine_grid(
            ones(lib, *t), s, align_corners=False
        )
    yield lambda lib: lib.nn.functional.affine_grid(
        ones(lib, *theta, dtype="int64"), (2, 3, 4, 5), align_corners=False
    )
    yield lambda lib: lib.nn.functional.pdist(ones(lib, 2, 2, 2))
    yield lambda lib: lib.nn.functional.pdist(ones(lib, 2, 2), -1.0)
    yield lambda lib: lib.nn.functional.pdist(ones(lib, 2, 2, dtype="int64"))
    image = (2, 3, 5, 5)
    for shape, kernel, size, drawn in [
        (image, 2, None, None), (image, 2, 6, None), (image, 2, (5, 5), None),
        (image, 2, (2, 2), (1, 3, 2)), (image, 2, (2, 2), (2, 1, 2)), (image, 2, (2, 2), (2, 3, 3)),
        (image, 2, (2, 2), (2, 3)), ((5, 5), 2, 2, None), ((2, 3, 0, 5), 2, 2, None),
        (image, (2, 2, 2), 2, None), (image, 2, (2, 2, 2), None), (image, 6, 1, None),
    ]:  # fmt: skip
        yield (
            lambda lib, s=shape, k=kernel, o=size, d=drawn: lib.nn.functional.fractional_max_pool2d(
                ones(lib, *s), k, o, _random_samples=None if d is None else ones(lib, *d) * 0.5
            )
        )
    for steps, sizes, target, options in [
        ((3,), (1, 1), (2, 1), {}), ((3, 4), (1, 1), (2, 1), {}), ((3, 3), (1, 9), (2, 1), {}),
        ((3, 3), (1, 1), (2, 1), {"blank": 7}), ((-1, 3), (1, 1), (2, 1), {}),
        ((3, 3), (1, -1), (2, 1), {}), ((3, 3), (1, 1), (3,), {}), ((3, 3), (1, 1), (1, 1, 1), {}),
        ((3, 3), (1, 1), (1, 1), {}), ((3, 3), (1, 1), (2, 1), {"reduction": "x"}),
    ]:  # fmt: skip
        yield lambda lib, a=steps, b=sizes, t=target, o=options: lib.nn.functional.ctc_loss(
            ones(lib, 3, 2, 4), ones(lib, *t, dtype="int64"), lib.tensor(a), lib.tensor(b), **o
        )
    yield lambda lib: lib.nn.functional.ctc_loss(
        ones(lib, 3, 2, 4, dtype="float16"), ones(lib, 2, 1, dtype="int64"), (3, 3), (1, 1)
    )
    yield lambda lib: lib.nn.functional.ctc_loss(
        ones(lib, 3, 2, 4),
        ones(lib, 2, 1, dtype="int64"),
        lib.tensor([3.0, 3.0]),
        lib.tensor([1, 1]),
    )
    yield from (
        lambda lib: lib.nn.FractionalMaxPool2d(2),
        lambda lib: lib.nn.FractionalMaxPool2d(2, 2, 0.5),
        lambda lib: lib.nn.FractionalMaxPool3d(2, output_ratio=1.5),
        lambda lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4, 10]),
        lambda lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, []),
        lambda lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4, 4]),
        lambda lib: lib.nn.LinearCrossEntropyLoss(3, 2, weight=lib.ones(3)),
        lambda lib: lib.nn.LinearCrossEntropyLoss(3, 2, label_smoothing=2.0),
        lambda lib: lib.nn.CrossMapLRN2d(3)(lib.ones(2, 3, 3)),
        lambda lib: lib.nn.functional.gumbel_softmax(lib.ones(2, 3), dim=7),
        lambda lib: lib.nn.functional.gumbel_softmax(lib.ones(2, 3, dtype=lib.int64)),
    )
    for shape, target in [
        ((2, 8), [1]), ((2, 8), [1, 10]), ((2, 2, 8), [1, 1]), ((8,), [1]), ((2, 8), [-1, 3]),
        ((2, 8), [[1, 3]]), ((2, 8), 1),
    ]:  # fmt: skip
        yield lambda lib, s=shape, t=target: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4, 7], 1.0)(
            ones(lib, *s), lib.tensor(t)
        )


@pytest.mark.parametrize("call", [*calls()])
def test_a_wrong_call_raises_pytorchs_class_of_error(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(Exception) as ours:
        call(gradhook)
    assert issubclass(ours.type, theirs.type) or issubclass(theirs.type, ours.type), (
        f"{ours.value!r} where PyTorch raises {theirs.value!r}"
    )
