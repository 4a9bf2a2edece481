"""nn.functional: what rows of the table don't say - arguments, errors, randomness, side effects."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import gradhook
import gradhook.nn.functional as F
from gradhook import nn


def test_linear_says_which_shapes_do_not_fit():
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x3 and 4x5\)"):
        F.linear(gradhook.ones(2, 3), gradhook.ones(5, 4))
    with pytest.raises(RuntimeError, match="same dtype"):
        F.linear(gradhook.ones(2, 3), gradhook.ones(5, 3, dtype=gradhook.float64))


# ---- losses


@pytest.mark.cpu_only(reason="values are checked on the CPU only: on a device it waits")
def test_cross_entropy_checks_classes_on_the_cpu():
    scores = gradhook.zeros(3, 4)
    for bad in (4, -1):
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
            F.cross_entropy(scores, gradhook.tensor([0, bad, 1]))
    found = F.cross_entropy(scores, gradhook.tensor([0, -100, 1]))
    assert found.item() == pytest.approx(math.log(4))
    with np.errstate(invalid="ignore"):
        nothing = F.cross_entropy(scores, gradhook.tensor([-100] * 3))
    assert math.isnan(nothing.item())


def test_cross_entropy_of_large_scores_is_finite():
    scores = gradhook.tensor([[1e4, 0.0], [-1e4, 1e4]], requires_grad=True)
    loss = F.cross_entropy(scores, gradhook.tensor([1, 1]), reduction="sum")
    loss.backward()
    assert loss.item() == pytest.approx(1e4)
    assert scores.grad.tolist() == [[1, -1], [0, 0]]


def test_cross_entropy_takes_narrow_integers_and_probabilities():
    scores = gradhook.randn(5, 3)
    target = gradhook.tensor([0, 1, 2, 1, 0])
    expected = F.cross_entropy(scores, target).item()
    assert F.cross_entropy(scores, target.to(gradhook.uint8)).item() == pytest.approx(expected)
    rows = F.one_hot(target).float()
    assert F.cross_entropy(scores, rows).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("target", "error", "text"),
    [
        (gradhook.zeros(2, dtype=gradhook.int64), ValueError, r"batch_size \(3\) to match target"),
        (gradhook.zeros(3), RuntimeError, "expected target dtype to be Long or Byte"),
        (
            gradhook.zeros(3, 4, dtype=gradhook.int64),
            RuntimeError,
            "floating point type for target",
        ),
    ],
)
def test_cross_entropy_names_what_does_not_fit(target, error, text):
    with pytest.raises(error, match=text):
        F.cross_entropy(gradhook.zeros(3, 4), target)


def test_losses_warn_of_sizes_that_only_broadcast():
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(gradhook.ones(3, 1), gradhook.ones(3))
    with pytest.raises(ValueError, match="abc is not a valid value for reduction"):
        F.l1_loss(gradhook.ones(1), gradhook.ones(1), reduction="abc")


@pytest.mark.cpu_only(reason="values are checked on the CPU only: on a device it waits")
def test_binary_cross_entropy_wants_probabilities_and_cuts_logarithms():
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(gradhook.tensor([1.5]), gradhook.ones(1))
    assert F.binary_cross_entropy(gradhook.zeros(1), gradhook.ones(1)).item() == 100


def test_hot_losses_raise_no_numpy_warning_for_users():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.binary_cross_entropy_with_logits(gradhook.tensor([1e4, -1e4]), gradhook.ones(2))
        F.cross_entropy(gradhook.tensor([[1e4, -1e4]]), gradhook.tensor([0]))


# ---- dropout


def test_dropout_keeps_the_mean_and_uses_one_mask_for_the_gradient():
    gradhook.manual_seed(0)
    x = gradhook.ones(100, 100, requires_grad=True)
    y = F.dropout(x, 0.25)
    assert set(np.unique(y.detach().cpu().numpy())) == {np.float32(0), np.float32(1 / 0.75)}
    assert y.mean().item() == pytest.approx(1, abs=0.05)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), y.detach().cpu().numpy())


def test_dropout_follows_the_seed_and_the_mode():
    x = gradhook.ones(50)
    gradhook.manual_seed(3)
    first = F.dropout(x).tolist()
    gradhook.manual_seed(3)
    assert F.dropout(x).tolist() == first
    assert F.dropout(x, training=False) is x
    assert F.dropout(x, 1.0).tolist() == [0] * 50
    layer = nn.Dropout(0.5).eval()
    assert layer(x).tolist() == x.tolist()
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(x, 1.5)


def test_channel_dropout_drops_whole_channels():
    y = F.dropout2d(gradhook.ones(8, 16, 3, 3), 0.5).cpu().numpy()
    assert all(len(np.unique(plane)) == 1 for plane in y.reshape(-1, 9))


# ---- normalisation


def test_batch_norm_moves_the_running_statistics_and_then_uses_them():
    layer = nn.BatchNorm1d(3, momentum=0.5)
    x = gradhook.randn(10, 3)
    y = layer(x)
    a = x.cpu().numpy()
    np.testing.assert_allclose(
        layer.running_mean.cpu().numpy(), 0.5 * a.mean(0), rtol=1e-5, atol=1e-6
    )
    expected = 0.5 + 0.5 * a.var(0, ddof=1)
    np.testing.assert_allclose(layer.running_var.cpu().numpy(), expected, rtol=1e-5)
    assert layer.num_batches_tracked.item() == 1
    np.testing.assert_allclose(y.detach().cpu().numpy().mean(0), 0, atol=1e-6)
    z = layer.eval()(x).detach().cpu().numpy()
    expected = (a - layer.running_mean.cpu().numpy()) / np.sqrt(
        layer.running_var.cpu().numpy() + 1e-5
    )
    np.testing.assert_allclose(z, expected, rtol=1e-4, atol=1e-5)
    assert layer.num_batches_tracked.item() == 1


def test_half_precision_is_normalised_and_summed_in_single():
    x = gradhook.tensor([[300.0, -300.0, 100.0]], dtype=gradhook.float16, requires_grad=True)
    y = F.layer_norm(x, (3,))
    expected = F.layer_norm(x.detach().float(), (3,))
    np.testing.assert_allclose(y.detach().cpu().numpy(), expected.cpu().numpy(), rtol=2e-3)
    assert y.dtype == gradhook.float16
    (y * y * y).sum().backward()
    assert x.grad.dtype == gradhook.float16 and np.isfinite(x.grad.cpu().numpy()).all()
    np.testing.assert_allclose(
        F.rms_norm(x, (3,)).detach().cpu().numpy(),
        F.rms_norm(x.detach().float(), (3,)).cpu().numpy(),
        rtol=2e-3,
    )
    scores = gradhook.full((5000, 2), 60.0, dtype=gradhook.float16)
    loss = F.nll_loss(scores, gradhook.zeros(5000, dtype=gradhook.int64), reduction="mean")
    assert loss.item() == -60 and loss.dtype == gradhook.float16
    layer = nn.Linear(1, 1, dtype=gradhook.float16)
    layer(gradhook.ones(3000, 1, dtype=gradhook.float16)).sum().backward()
    assert layer.bias.grad.tolist() == [3000]


def test_normalisation_names_what_does_not_fit():
    with pytest.raises(RuntimeError, match=r"Given normalized_shape=\[3\], expected input with"):
        F.layer_norm(gradhook.ones(2, 4), (3,))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        nn.BatchNorm1d(3)(gradhook.ones(1, 3))
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        nn.BatchNorm2d(3)(gradhook.ones(1, 3))
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        F.group_norm(gradhook.ones(2, 4), 3)


# ---- embedding and one_hot


def test_embedding_ignores_the_padding_row_and_scales_down_long_ones():
    table = gradhook.tensor([[3.0, 4.0], [0.3, 0.4], [1.0, 0.0]], requires_grad=True)
    F.embedding(gradhook.tensor([0, 1, 1]), table, padding_idx=-3).sum().backward()
    assert table.grad.tolist() == [[0, 0], [2, 2], [0, 0]]
    with gradhook.no_grad():
        rows = F.embedding(gradhook.tensor([0, 1]), table, max_norm=1.0)
    np.testing.assert_allclose(rows.cpu().numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    np.testing.assert_allclose(table.detach().cpu().numpy()[0], [0.6, 0.8], rtol=1e-5)


@pytest.mark.cpu_only(reason="values are checked on the CPU only: on a device it waits")
def test_embedding_names_what_does_not_fit():
    table = gradhook.ones(3, 2)
    for bad in (3, -1):
        with pytest.raises(IndexError, match=f"index out of range in self: found {bad}"):
            F.embedding(gradhook.tensor([bad]), table)
    with pytest.raises(RuntimeError, match="must be 2-D"):
        F.embedding(gradhook.tensor([0]), gradhook.ones(3))
    with pytest.raises(RuntimeError, match="scalar types: Long, Int"):
        F.embedding(gradhook.tensor([0.0]), table)


def test_an_embedding_layer_starts_its_padding_row_at_zero():
    layer = nn.Embedding(4, 3, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0, 0, 0]
    frozen = nn.Embedding.from_pretrained(gradhook.ones(2, 2))
    assert not frozen.weight.requires_grad


@pytest.mark.cpu_only(reason="values are checked on the CPU only: on a device it waits")
def test_one_hot():
    assert F.one_hot(gradhook.tensor([1, 0])).tolist() == [[0, 1], [1, 0]]
    assert F.one_hot(gradhook.tensor(2), 4).tolist() == [0, 0, 1, 0]
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(gradhook.tensor([3]), 3)
    with pytest.raises(RuntimeError, match="must be non-negative"):
        F.one_hot(gradhook.tensor([-1]), 3)


# ---- attention, padding, resampling


def test_attention_is_a_weighted_mean_and_causal_rows_see_the_past_only():
    q, k, v = (gradhook.randn(2, 4, 3) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(out[:, 0].cpu().numpy(), v[:, 0].cpu().numpy(), rtol=1e-5)
    mask = gradhook.tensor([[True] * 4] * 3 + [[False] * 4])
    blind = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert blind[:, 3].tolist() == [[0, 0, 0]] * 2
    with pytest.raises(RuntimeError, match="should not be set when is_causal"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)


def test_grouped_query_attention_repeats_heads():
    q, k, v = gradhook.randn(1, 4, 5, 3), gradhook.randn(1, 2, 5, 3), gradhook.randn(1, 2, 5, 3)
    found = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    k4, v4 = (gradhook.tensor(np.repeat(t.cpu().numpy(), 2, 1)) for t in (k, v))
    np.testing.assert_allclose(
        found.cpu().numpy(), F.scaled_dot_product_attention(q, k4, v4).cpu().numpy(), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("mode", "np_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_pad_modes_agree_with_numpy(mode, np_mode):
    x = gradhook.randn(1, 2, 3, 4)
    expected = np.pad(x.cpu().numpy(), ((0, 0), (0, 0), (2, 0), (1, 3)), np_mode)
    np.testing.assert_array_equal(F.pad(x, (1, 3, 2, 0), mode).cpu().numpy(), expected)


def test_interpolate_names_contradictions():
    x = gradhook.ones(1, 1, 4)
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        F.interpolate(x, size=2, scale_factor=2)
    with pytest.raises(ValueError, match="either size or scale_factor"):
        F.interpolate(x)
    with pytest.raises(NotImplementedError, match="bilinear mode needs 4D"):
        F.interpolate(x, size=2, mode="bilinear")


# ---- pooling and convolution


def test_max_pool_lets_nan_win_and_points_into_the_plane():
    x = gradhook.tensor([[[1.0, 5.0, float("nan"), 2.0]]])
    values, indices = F.max_pool1d(x, 2, return_indices=True)
    assert values.tolist()[0][0][0] == 5 and math.isnan(values.tolist()[0][0][1])
    assert indices.tolist() == [[[1, 2]]]
    low = gradhook.full((1, 1, 2), -math.inf)
    _, at = F.max_pool1d(low, 2, stride=1, padding=1, return_indices=True)
    assert all(0 <= i < 2 for i in at.tolist()[0][0])


def test_same_padding_keeps_the_length_of_even_kernels_too():
    x, w = gradhook.randn(1, 1, 7), gradhook.randn(1, 1, 4)
    assert F.conv1d(x, w, padding="same").shape == (1, 1, 7)
    with pytest.raises(RuntimeError, match="not supported for strided"):
        F.conv1d(x, w, padding="same", stride=2)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_a_convolution_layer_pads_in_its_mode(mode):
    layer = nn.Conv2d(1, 1, 3, padding=1, padding_mode=mode)
    x = gradhook.randn(2, 1, 4, 5)
    expected = F.conv2d(F.pad(x, (1, 1, 1, 1), mode), layer.weight, layer.bias)
    np.testing.assert_allclose(layer(x).detach().cpu().numpy(), expected.detach().cpu().numpy())


def test_clipping_scales_all_gradients_together():
    p, q = nn.Parameter(gradhook.zeros(2)), nn.Parameter(gradhook.zeros(1))
    p.grad, q.grad = gradhook.tensor([3.0, 0.0]), gradhook.tensor([4.0])
    total = nn.utils.clip_grad_norm_([p, q], 1.0)
    assert total.item() == pytest.approx(5)
    np.testing.assert_allclose(p.grad.cpu().numpy(), [0.6, 0], rtol=1e-5)
    np.testing.assert_allclose(q.grad.cpu().numpy(), [0.8], rtol=1e-5)
    nn.utils.clip_grad_value_(p, 0.5)
    assert p.grad.tolist() == [0.5, 0]
    q.grad = gradhook.tensor([math.nan])
    with pytest.raises(RuntimeError, match="is non-finite"):
        nn.utils.clip_grad_norm_([p, q], 1.0, error_if_nonfinite=True)


def test_parameters_become_a_vector_and_come_back():
    net = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(gradhook.arange(9.0), net.parameters())
    assert net.bias.tolist() == [6, 7, 8]


# ---- joint formulas


def _gradients(function, arrays, needed):
    """The gradients of function(*arrays).cos().sum() for the inputs in `needed`, by position."""
    inputs = [gradhook.tensor(a, requires_grad=k in needed) for k, a in enumerate(arrays)]
    out = function(*inputs)
    found = gradhook.autograd.grad(out.cos().sum(), [inputs[k] for k in needed])
    return dict(zip(needed, found, strict=True)), type(out.grad_fn).saved_names


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (F.linear, {(0,): ("weight",), (1,): ("x",), (2,): (), (1, 2): ("x",)}),
        (lambda x, w, b: F.layer_norm(x, (4,), w, b), {(2,): ()}),
    ],
    ids=["linear", "layer_norm"],
)
def test_a_joint_formula_gives_what_each_gives_alone_and_saves_no_more_for_one(function, kept):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s) for s in ((5, 4), (4, 4), (4,))]
    if function is not F.linear:
        arrays[1] = arrays[1][0]
    together, _ = _gradients(function, arrays, (0, 1, 2))
    for needed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
        found, names = _gradients(function, arrays, needed)
        for k, gradient in found.items():
            np.testing.assert_allclose(
                gradient.cpu().numpy(), together[k].cpu().numpy(), rtol=1e-12, atol=1e-14
            )
        assert names == kept.get(needed, names)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_group_norm_names_a_parameter_that_is_no_vector_of_its_channels(name):
    x = gradhook.ones(2, 6, 3)
    with pytest.raises(
        RuntimeError, match=rf"{name} of shape \[3\] and input of shape \[2, 6, 3\]"
    ):
        F.group_norm(x, 3, **{name: gradhook.ones(3)})
