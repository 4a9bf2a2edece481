"""What a training step costs on a device: no transfer and no wait until a hook asks for values."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import nn
from gradhook.nn import functional as F

pytestmark = pytest.mark.cuda


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)
    )


MODELS = {"mlp": (mlp, (4, 6)), "conv": (convolutions, (4, 1, 6, 6))}
OPTIMIZERS = {
    "sgd": lambda p: gradhook.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: gradhook.optim.Adam(p, lr=0.1),
}


class Training:
    """A model, its data and its optimizer on the device; step() is one training step."""

    def __init__(self, name, optimizer="sgd"):
        make, shape = MODELS[name]
        gradhook.manual_seed(0)
        self.model = make()
        self.x = gradhook.randn(*shape)
        self.classes = gradhook.tensor([0, 2, 1, 0])
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.last = self.model[len(self.model) - 1]

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


@pytest.mark.parametrize("name", MODELS)
def test_a_hook_that_asks_for_nothing_launches_nothing(name, cost):
    bare = cost(Training(name))
    training, calls = Training(name), []
    for module in training.model:
        module.register_full_backward_hook(lambda m, gi, go: calls.append(go[0].shape))
        module.register_forward_hook(lambda m, i, o: None)
    hooked = cost(training)
    assert len(calls) == 3 * len(training.model)
    assert moves(hooked) == NOTHING
    assert (hooked["launches"], hooked["d2d"]) == (bare["launches"], bare["d2d"])


def test_a_hook_of_a_parameter_costs_one_copy_because_it_may_keep_what_it_got(cost):
    bare = cost(Training("mlp"))
    training = Training("mlp")
    parameters = list(training.model.parameters())
    for p in parameters:
        p.register_hook(lambda g: None)
    hooked = cost(training)
    assert moves(hooked) == NOTHING
    copies = hooked["launches"] + hooked["d2d"] - bare["launches"] - bare["d2d"]
    assert 0 <= copies <= len(parameters)


@pytest.mark.parametrize("name", MODELS)
def test_however_many_hooks_ask_for_a_gradient_it_moves_once(name, cost):
    training, seen = Training(name), []
    for _ in range(3):
        training.last.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    found = cost(training)
    assert len(seen) == 9 and seen[-1] == seen[-2] == seen[-3]
    assert found["d2h"] == found["syncs"] == 1 and found["h2d"] == 0
    assert found["bytes_d2h"] == 4 * 3 * 4  # four rows, three classes, float32


def test_each_gradient_that_is_asked_for_moves_its_own_bytes(cost):
    training, values = Training("mlp"), []
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
