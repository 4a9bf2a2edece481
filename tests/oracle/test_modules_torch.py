"""Modules beside torch's: the same weights, inputs and gradients must give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
from gradhook import nn  # noqa: E402

LAYERS = {
    "linear": (lambda n: n.Linear(5, 3), (4, 5)),
    "linear without batch": (lambda n: n.Linear(5, 3, bias=False), (5,)),
    "conv1d": (lambda n: n.Conv1d(2, 4, 3, padding=1), (2, 2, 7)),
    "conv2d": (lambda n: n.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2), (2, 4, 7, 6)),
    "conv2d same": (lambda n: n.Conv2d(2, 3, 4, padding="same", dilation=2), (2, 2, 9, 8)),
    "conv2d reflect": (
        lambda n: n.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
        (2, 2, 5, 5),
    ),
    "conv3d": (lambda n: n.Conv3d(1, 2, 2), (1, 1, 3, 4, 3)),
    "conv_transpose2d": (
        lambda n: n.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
        (2, 3, 4, 5),
    ),
    "max_pool2d": (lambda n: n.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (2, 2, 6, 7)),
    "avg_pool2d": (
        lambda n: n.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        (2, 2, 6, 7),
    ),
    "adaptive_avg_pool2d": (lambda n: n.AdaptiveAvgPool2d((3, None)), (2, 2, 7, 5)),
    "layer_norm": (lambda n: n.LayerNorm((3, 4)), (2, 3, 4)),
    "group_norm": (lambda n: n.GroupNorm(2, 4), (2, 4, 5)),
    "rms_norm": (lambda n: n.RMSNorm(4), (2, 3, 4)),
    "batch_norm1d": (lambda n: n.BatchNorm1d(3), (6, 3)),
    "batch_norm2d": (lambda n: n.BatchNorm2d(3, momentum=None), (2, 3, 4, 5)),
    "relu": (lambda n: n.ReLU(), (3, 4)),
    "leaky_relu": (lambda n: n.LeakyReLU(0.2), (3, 4)),
    "elu": (lambda n: n.ELU(1.3), (3, 4)),
    "prelu": (lambda n: n.PReLU(4), (3, 4)),
    "silu": (lambda n: n.SiLU(), (3, 4)),
    "mish": (lambda n: n.Mish(), (3, 4)),
    "gelu": (lambda n: n.GELU(), (3, 4)),
    "gelu tanh": (lambda n: n.GELU(approximate="tanh"), (3, 4)),
    "tanh": (lambda n: n.Tanh(), (3, 4)),
    "sigmoid": (lambda n: n.Sigmoid(), (3, 4)),
    "log_sigmoid": (lambda n: n.LogSigmoid(), (3, 4)),
    "softplus": (lambda n: n.Softplus(2, 1.0), (3, 4)),
    "softsign": (lambda n: n.Softsign(), (3, 4)),
    "relu6": (lambda n: n.ReLU6(), (3, 4)),
    "softmax": (lambda n: n.Softmax(dim=1), (3, 4)),
    "log_softmax": (lambda n: n.LogSoftmax(dim=-1), (3, 4)),
    "flatten": (lambda n: n.Flatten(), (2, 3, 4)),
    "unflatten": (lambda n: n.Unflatten(1, (2, 3)), (2, 6)),
    "deep": (
        lambda n: n.Sequential(
            n.Conv2d(1, 4, 3),
            n.ReLU(),
            n.MaxPool2d(2),
            n.Flatten(),
            n.Linear(36, 8),
            n.LayerNorm(8),
            n.Linear(8, 3),
        ),
        (2, 1, 8, 8),
    ),
}
LOSSES = {
    "mse": (lambda n: n.MSELoss(), "like"),
    "l1": (lambda n: n.L1Loss(reduction="sum"), "like"),
    "smooth_l1": (lambda n: n.SmoothL1Loss(beta=0.5), "like"),
    "huber": (lambda n: n.HuberLoss(delta=0.5), "like"),
    "bce_with_logits": (lambda n: n.BCEWithLogitsLoss(), "probabilities"),
    "kl": (lambda n: n.KLDivLoss(reduction="batchmean"), "probabilities"),
    "nll": (lambda n: n.NLLLoss(), "classes"),
    "cross_entropy": (lambda n: n.CrossEntropyLoss(), "classes"),
    "cross_entropy sum": (lambda n: n.CrossEntropyLoss(reduction="sum"), "classes"),
    "cross_entropy smooth": (
        lambda n: n.CrossEntropyLoss(label_smoothing=0.1, ignore_index=2),
        "classes",
    ),
    "cross_entropy probabilities": (lambda n: n.CrossEntropyLoss(), "distribution"),
}


def pair(make):
    """The module of torch and ours, in float64, with torch's weights loaded into ours."""
    torch.manual_seed(0)
    theirs = make(torch.nn).double()
    ours = make(nn).double()
    state = {k: gradhook.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    return theirs, ours


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def agree(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_layers_give_torch_s_outputs_and_gradients(name, training):
    make, shape = LAYERS[name]
    theirs, ours = (m.train(training) for m in pair(make))
    assert repr(ours) == repr(theirs)
    x = numbers(*shape)
    tx = torch.tensor(x, requires_grad=True)
    gx = gradhook.tensor(x, requires_grad=True)
    ty, gy = theirs(tx), ours(gx)
    agree(gy.detach().numpy(), ty.detach().numpy())
    cotangent = numbers(*ty.shape, seed=1)
    ty.backward(torch.tensor(cotangent))
    gy.backward(gradhook.tensor(cotangent))
    agree(gx.grad.numpy(), tx.grad.numpy())
    for (k, p), (_, q) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        agree(q.grad.numpy(), p.grad.numpy())
        assert k
    for k, v in theirs.state_dict().items():
        agree(ours.state_dict()[k].numpy(), v.numpy())


@pytest.mark.parametrize("name", LOSSES)
def test_losses_give_torch_s_values_and_gradients(name):
    make, kind = LOSSES[name]
    x = numbers(5, 4)
    target = {
        "like": numbers(5, 4, seed=1),
        "probabilities": np.random.default_rng(1).uniform(0.1, 0.9, (5, 4)),
        "distribution": np.random.default_rng(1).dirichlet(np.ones(4), 5),
        "classes": np.array([0, 3, 2, 1, 1]),
    }[kind]
    tx, gx = torch.tensor(x, requires_grad=True), gradhook.tensor(x, requires_grad=True)
    tl, gl = make(torch.nn)(tx, torch.tensor(target)), make(nn)(gx, gradhook.tensor(target))
    agree(gl.item(), tl.item())
    tl.backward()
    gl.backward()
    agree(gx.grad.numpy(), tx.grad.numpy())


@pytest.mark.parametrize("name", ["Linear", "Conv2d", "Embedding", "BatchNorm2d", "GroupNorm"])
def test_first_weights_have_torch_s_distribution(name):
    arguments = {"Embedding": (50, 40), "GroupNorm": (2, 8), "BatchNorm2d": (8,)}
    given = arguments.get(name, (40, 50, 3) if name == "Conv2d" else (40, 50))
    torch.manual_seed(0)
    gradhook.manual_seed(0)
    theirs, ours = getattr(torch.nn, name)(*given), getattr(nn, name)(*given)
    for (k, p), (_, q) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        a, b = p.detach().numpy(), q.detach().numpy()
        assert b.std() == pytest.approx(a.std(), rel=0.25, abs=1e-12), k
        assert abs(b).max() == pytest.approx(abs(a).max(), rel=0.25, abs=1e-12), k


def test_errors_of_load_state_dict_are_torch_s_word_for_word():
    def message(n, make):
        with pytest.raises(RuntimeError) as error:
            n.Sequential(n.Linear(2, 3), n.ReLU()).load_state_dict(make)
        return str(error.value).replace("torch.Size", "gradhook.Size")

    theirs = {"0.weight": torch.ones(1), "2.x": torch.ones(1)}
    ours = {"0.weight": gradhook.ones(1), "2.x": gradhook.ones(1)}
    assert message(nn, ours) == message(torch.nn, theirs)
