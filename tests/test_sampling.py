"""Sampling, CTC and the losses beside them: what no comparison with PyTorch shows."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import nn
from gradhook.autograd.gradcheck import gradcheck, gradgradcheck
from gradhook.nn import functional as F

RNG = np.random.default_rng(4)


def leaf(*shape, scale=1.0):
    return gradhook.tensor(RNG.standard_normal(shape) * scale, requires_grad=True)


def test_ctc_loss_has_second_derivatives_through_log_softmax():
    targets, steps, sizes = gradhook.tensor([[1, 1], [2, 0]]), (4, 3), (2, 1)

    def loss(x):
        return F.ctc_loss(x.log_softmax(2), targets, steps, sizes, reduction="sum")

    x = leaf(4, 2, 3)
    assert gradcheck(loss, (x,))
    assert gradgradcheck(loss, (x,))


def test_pdist_and_grid_sample_have_second_derivatives_which_pytorch_lacks():
    assert gradgradcheck(lambda x: F.pdist(x, 3.0), (leaf(4, 3),))
    assert gradgradcheck(
        lambda x, grid: F.grid_sample(x, grid, "bicubic", "reflection", False),
        (leaf(1, 1, 3, 3), leaf(1, 2, 1, 2, scale=0.4)),
    )


def test_the_distances_of_fewer_than_two_rows_are_none():
    for n in (0, 1):
        x = leaf(n, 3)
        found = F.pdist(x)
        found.sum().backward()
        assert found.shape == (0,) and not x.grad.any().item()


@pytest.mark.parametrize("difference", [50.0, 800.0])
def test_logaddexp_of_numbers_far_apart_has_all_its_derivatives(difference):
    for function in (gradhook.logaddexp, gradhook.logaddexp2):
        x = gradhook.tensor([0.0, difference], dtype=gradhook.float64, requires_grad=True)
        y = gradhook.tensor([difference, 0.0], dtype=gradhook.float64, requires_grad=True)
        first = gradhook.autograd.grad(function(x, y).sum(), (x, y), create_graph=True)
        assert first[0].tolist() == pytest.approx([0, 1], abs=1e-12)
        second = gradhook.autograd.grad(first[0].sum(), (x, y))
        assert [g.tolist() for g in second] == [pytest.approx([0, 0], abs=1e-12)] * 2


def test_a_number_after_another_has_its_gradient():
    x, y = leaf(3), leaf(3)
    gradhook.nextafter(x, y).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    assert not y.grad.any().item()


def test_cross_map_normalisation_counts_the_window_it_says_and_passes_gradcheck():
    x = leaf(1, 6, 2, 1)
    layer = nn.CrossMapLRN2d(3, 0.5, 0.75, 2.0)
    assert gradcheck(layer, (x,))
    a = x.detach().cpu().numpy()
    total = np.pad(a**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    total = total[:, :-2] + total[:, 1:-1] + total[:, 2:]
    np.testing.assert_allclose(
        layer(x).detach().cpu().numpy(), a / (2 + 0.5 / 3 * total) ** 0.75, 1e-12
    )


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_draws_its_own_windows_and_max_unpool_takes_its_indices(n):
    gradhook.manual_seed(0)
    x = leaf(2, 3, *(7,) * n)
    layer = getattr(nn, f"FractionalMaxPool{n}d")(2, output_ratio=0.5, return_indices=True)
    values, indices = layer(x)
    assert values.shape == indices.shape == (2, 3, *(3,) * n)
    np.testing.assert_array_equal(
        x.detach().reshape(2, 3, -1).gather(2, indices.reshape(2, 3, -1)).cpu().numpy(),
        values.detach().reshape(2, 3, -1).cpu().numpy(),
    )
    values.sum().backward()
    assert x.grad.sum().item() == values.numel()


def test_adaptive_softmax_probabilities_sum_to_one_and_agree_with_its_loss():
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3, 5], div_value=2.0).double()
    x, targets = leaf(5, 6), gradhook.tensor([0, 4, 8, 3, 2])
    everything = layer.log_prob(x)
    assert everything.exp().sum(1).tolist() == pytest.approx([1.0] * 5)
    output, loss = layer(x, targets)
    picked = everything.gather(1, targets.unsqueeze(1)).squeeze(1)
    assert output.tolist() == pytest.approx(picked.tolist())
    assert loss.item() == pytest.approx(-sum(picked.tolist()) / 5)
    assert layer(x[0], targets[0]).output.item() == pytest.approx(picked[0].item())
    assert layer.predict(x).tolist() == everything.argmax(1).tolist()


def test_the_older_upsamplings_warn_and_do_as_interpolate():
    x = leaf(1, 2, 3, 3)
    for name, mode, align in (("nearest", "nearest", None), ("bilinear", "bilinear", True)):
        with pytest.warns(UserWarning, match=f"upsample_{name}` is deprecated"):
            found = getattr(F, f"upsample_{name}")(x, scale_factor=2)
        expected = F.interpolate(x, scale_factor=2, mode=mode, align_corners=align)
        np.testing.assert_array_equal(found.detach().cpu().numpy(), expected.detach().cpu().numpy())
    with pytest.warns(UserWarning, match="upsample` is deprecated"):
        assert F.upsample(x, size=(2, 2)).shape == (1, 2, 2, 2)
    with pytest.warns(UserWarning, match="eps"):
        assert F.gumbel_softmax(x, eps=1e-9).shape == x.shape
    with pytest.warns(UserWarning, match="align_corners=False since"):
        F.grid_sample(x, F.affine_grid(leaf(1, 2, 3), (1, 1, 2, 2), align_corners=False))


def test_gumbel_softmax_passes_the_gradient_of_the_soft_sample():
    logits = leaf(4, 3)
    weight = gradhook.tensor(RNG.standard_normal((4, 3)))
    gradients = []
    for hard in (False, True):
        gradhook.manual_seed(1)
        found = F.gumbel_softmax(logits, tau=0.5, hard=hard)
        gradients.append(gradhook.autograd.grad(found, logits, weight)[0].cpu().numpy())
    np.testing.assert_allclose(*gradients, 1e-12)


@pytest.mark.cuda
def test_ctc_lengths_on_the_device_of_the_inputs_need_no_wait(device_counters):
    x = gradhook.tensor(RNG.standard_normal((6, 2, 4)), requires_grad=True)
    padded, joined = gradhook.tensor([[1, 2, 2], [3, 0, 0]]), gradhook.tensor([1, 2, 2, 3])
    steps, sizes = gradhook.tensor([6, 5]), gradhook.tensor([3, 1])
    expected = F.ctc_loss(x.log_softmax(2), padded, (6, 5), (3, 1)).item()
    device_counters(reset=True)
    found = [F.ctc_loss(x.log_softmax(2), t, steps, sizes) for t in (padded, joined)]
    for loss in found:
        loss.backward()
    counted = device_counters()
    assert not any(counted[k] for k in ("d2h", "syncs")), counted
    assert [f.item() for f in found] == [pytest.approx(expected)] * 2
