"""What a training step costs on a device: no transfer and no wait until a hook asks for values."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import pytest

import gradhook
from gradhook import nn
from gradhook.demo.model import classifier
from gradhook.nn import functional as F
from gradhook.nn import utils

pytestmark = pytest.mark.cuda


class TransformerBlock(nn.Module):
    """Pre-norm self-attention and an MLP, each with its residual. In and out: (n, t, width)."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gelu = nn.GELU()

    def attention(self, x):
        n, t, width = x.shape
        parts = self.qkv(x).reshape(n, t, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).softmax(-1)
        return self.projection((scores @ v).transpose(1, 2).reshape(n, t, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.shrink(self.gelu(self.expand(self.norm2(x))))


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)
    )


def demo():
    return classifier().to("cuda")


def transformer():
    return nn.Sequential(TransformerBlock(), nn.Flatten(), nn.Linear(32, 3))


def encoder():
    layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(18, 3))


class LastState(nn.Module):
    """The last h of a recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, input):
        return self.layer(input)[0][:, -1]


def recurrent():
    return nn.Sequential(
        LastState(nn.LSTM(6, 4, batch_first=True, bidirectional=True)), nn.Linear(8, 3)
    )


def reparametrized():
    """Layers with each norm and parametrization that reads nothing on the host, and a pruned one:
    matrix_exp reads how large its matrix is.
    """
    model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(6)], nn.Linear(6, 3))
    utils.parametrizations.weight_norm(model[0])
    utils.parametrizations.spectral_norm(model[1])
    utils.parametrizations.orthogonal(model[2], orthogonal_map="cayley")
    utils.parametrizations.orthogonal(model[3], orthogonal_map="householder")
    utils.prune.l1_unstructured(utils.spectral_norm(model[4], "bias"), "weight", amount=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        utils.weight_norm(model[5])
    return model


# How to make it, the shape of its input, the shape of its output.
MODELS = {
    "mlp": (mlp, (4, 6), (4, 3)),
    "conv": (convolutions, (4, 1, 6, 6), (4, 3)),
    "demo": (demo, (4, 1, 8, 8), (4, 10)),
    "transformer": (transformer, (4, 4, 8), (4, 3)),
    "encoder layer": (encoder, (4, 3, 6), (4, 3)),
    "recurrent": (recurrent, (4, 3, 6), (4, 3)),
    "reparametrized": (reparametrized, (4, 6), (4, 3)),
}
OPTIMIZERS = {
    "sgd": lambda p: gradhook.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: gradhook.optim.Adam(p, lr=3e-3),
}


class Training:
    """A model, its data and its optimizer on the device; step() is one training step."""

    def __init__(self, name, optimizer="sgd"):
        make, shape, scores = MODELS[name]
        gradhook.manual_seed(0)
        self.model = make()
        self.modules = list(self.model.modules())
        self.x = gradhook.randn(*shape)
        self.classes = gradhook.tensor([0, 2, 1, 0])
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.last = self.model[len(self.model) - 1]
        self.gradient_bytes = 4 * math.prod(scores)  # of what comes to the last layer, float32

    def step(self):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.x), self.classes)
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.fixture
def cost(device_counters):
    """A function that runs one step after two to warm up, and gives what it cost."""

    def measure(training):
        for _ in range(2):
            training.step()
        device_counters(reset=True)
        training.step()
        return device_counters()

    return measure


def moves(found):
    return {k: found[k] for k in ("h2d", "d2h", "syncs", "blocking_copies", "free_syncs")}


NOTHING = {"h2d": 0, "d2h": 0, "syncs": 0, "blocking_copies": 0, "free_syncs": 0}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_moves_nothing_and_waits_for_nothing(name, optimizer, cost):
    found = cost(Training(name, optimizer))
    assert moves(found) == NOTHING and found["launches"] > 0


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_hook_that_asks_for_nothing_launches_nothing(name, optimizer, cost):
    bare = cost(Training(name, optimizer))
    training, calls = Training(name, optimizer), Counter()
    for module in training.modules:
        module.register_forward_pre_hook(lambda m, i: calls.update(["before"]))
        module.register_forward_hook(lambda m, i, o: calls.update(["after"]))
        module.register_full_backward_pre_hook(lambda m, go: calls.update(["output"]))
        module.register_full_backward_hook(lambda m, gi, go: calls.update(["input"]))
    hooked = cost(training)
    assert len(calls) == 4 and set(calls.values()) == {calls["before"]}
    assert calls["before"] >= 3 * len(training.model)  # three steps
    assert moves(hooked) == NOTHING
    # An original is a parametrization's input: hooks were handed its gradient, .grad is a copy.
    lists = [m for m in training.modules if isinstance(m, utils.parametrize.ParametrizationList)]
    copies = sum(len(found._parameters) for found in lists)
    assert (hooked["launches"], hooked["d2d"]) == (bare["launches"] + copies, bare["d2d"])


def test_a_hook_of_a_parameter_that_asks_for_nothing_launches_nothing(cost):
    bare = cost(Training("mlp"))
    training = Training("mlp")
    parameters = list(training.model.parameters())
    for p in parameters:
        p.register_hook(lambda g: None)
    hooked = cost(training)
    assert moves(hooked) == NOTHING
    assert (hooked["launches"], hooked["d2d"]) == (bare["launches"], bare["d2d"])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_however_many_hooks_ask_for_a_gradient_it_moves_once(name, optimizer, cost):
    training, seen = Training(name, optimizer), []
    for _ in range(3):
        training.last.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    found = cost(training)
    assert len(seen) == 9 and seen[-1] == seen[-2] == seen[-3]
    assert found["d2h"] == found["syncs"] == 1 and found["h2d"] == 0
    assert found["bytes_d2h"] == training.gradient_bytes


@pytest.mark.parametrize("name", MODELS)
def test_each_gradient_that_is_asked_for_moves_its_own_bytes(name, cost):
    training, values = Training(name), []
    weight, bias = training.last.weight, training.last.bias
    for p in (weight, bias):
        p.register_post_accumulate_grad_hook(lambda p: values.append(p.grad.tolist()))
    found = cost(training)
    assert found["d2h"] == 2 and found["bytes_d2h"] == (weight.numel() + bias.numel()) * 4


def test_the_loss_is_read_when_it_is_asked_for_and_once(device_counters):
    loss = Training("mlp").step()
    device_counters(reset=True)
    assert loss.item() == loss.item()
    found = device_counters()
    assert found["bytes_d2h"] in (4, 8) and found["d2h"] <= 2
