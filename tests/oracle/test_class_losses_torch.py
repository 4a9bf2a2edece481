"""cross_entropy and nll_loss of class indices against PyTorch: every option, and the extremes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gradhook
from gradhook.nn import functional as F

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(5)
SHAPES = {"vector": (5,), "matrix": (7, 5), "image": (2, 5, 3, 4), "empty": (0, 5)}
OPTIONS = [
    {"reduction": reduction, "ignore_index": ignored, **smooth}
    for reduction, ignored, smooth in product(
        ("mean", "sum", "none"), (-100, 2), ({}, {"label_smoothing": 0.2})
    )
]


def scores_and_targets(shape):
    rest = shape[1:] if len(shape) == 1 else (shape[0], *shape[2:])
    targets = RNG.integers(0, 5, rest)
    targets[RNG.random(rest) < 0.2] = 2
    return RNG.standard_normal(shape), targets


def loss_and_gradients(lib, name, scores, targets, weight, options, order):
    """The loss, its gradient and, of order 2, the gradient of the gradient's squares."""
    x = lib.tensor(scores, requires_grad=True)
    weight = None if weight is None else lib.tensor(weight)
    function = getattr(lib.nn.functional, name)
    loss = function(x, lib.tensor(targets), weight=weight, **options)
    found = [loss]
    seed = lib.cos(lib.arange(loss.numel(), dtype=x.dtype)).reshape(loss.shape)
    (first,) = lib.autograd.grad(loss, x, seed, create_graph=order == 2, retain_graph=True)
    found.append(first)
    if order == 2:
        found += lib.autograd.grad((first * first).sum(), x, allow_unused=True)
    return [None if t is None else t.detach().numpy() for t in found]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_every_option_gives_torch_s_loss_and_gradients(name, shape, weighted):
    scores, targets = scores_and_targets(SHAPES[shape])
    weight = RNG.random(5) + 0.5 if weighted else None
    for options in OPTIONS:
        if name == "nll_loss" and "label_smoothing" in options:
            continue
        order = 2 if name == "cross_entropy" else 1
        arguments = (name, scores, targets, weight, options, order)
        with np.errstate(all="ignore"):
            found = loss_and_gradients(gradhook, *arguments)
        for a, b in zip(found, loss_and_gradients(torch, *arguments), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(options))


INF = float("inf")
EXTREMES = {
    "large": ([[1e4, -1e4, 0.0], [-1e30, 1e30, 0.0]], [1, 1]),
    "-inf elsewhere": ([[0.0, -INF, 1.0]], [0]),
    "-inf at the target": ([[0.0, -INF, 1.0]], [1]),
    "inf at the target": ([[0.0, INF, 1.0]], [1]),
    "nan": ([[0.0, float("nan"), 1.0]], [0]),
    "all ignored": ([[0.0, 1.0, 2.0]], [-100]),
    "inf where ignored": ([[INF, 1.0, 2.0], [0.0, 1.0, 2.0]], [-100, 1]),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_give_torch_s_loss(name, reduction):
    scores, targets = EXTREMES[name]
    with np.errstate(all="ignore"):
        found = F.cross_entropy(
            gradhook.tensor(scores), gradhook.tensor(targets), reduction=reduction
        )
    expected = torch.nn.functional.cross_entropy(
        torch.tensor(scores), torch.tensor(targets), reduction=reduction
    )
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_all_ignored_has_a_gradient_of_zeros_and_the_mean_is_nan():
    for lib in (gradhook, torch):
        x = lib.tensor([[0.0, 1.0, 2.0]], requires_grad=True)
        with np.errstate(all="ignore"):
            loss = lib.nn.functional.cross_entropy(x, lib.tensor([-100]))
            loss.backward()
        assert np.isnan(loss.item()) and x.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_the_node_has_torch_s_name():
    for lib in (gradhook, torch):
        x = lib.tensor([[0.0, 1.0, 2.0]], requires_grad=True)
        assert lib.nn.functional.cross_entropy(x, lib.tensor([1])).grad_fn.name() == (
            "NllLossBackward0"
        )


def test_a_weight_of_another_dtype_is_refused():
    for lib in (gradhook, torch):
        x, weight = lib.zeros(2, 3), lib.ones(3, dtype=lib.float64)
        with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
            lib.nn.functional.cross_entropy(x, lib.tensor([0, 1]), weight)
