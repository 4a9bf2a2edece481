"""Optimizers, schedules and averages on the device: no value is read on the host."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import nn, optim

pytestmark = pytest.mark.cuda
KINDS = "Adadelta Adafactor Adagrad Adam Adamax AdamW ASGD Muon NAdam RAdam RMSprop Rprop SGD"
QUIET = ("h2d", "d2h", "syncs")


def trained(kind, device, lr, counters=None, dtype="float32"):
    """A matrix after three steps; the counters of the last two show no read."""
    rng = np.random.default_rng(1)
    start = rng.standard_normal((4, 3)).astype(dtype)
    p = nn.Parameter(gradhook.tensor(start, device=device))
    rate = gradhook.tensor(0.125, device=lr, dtype=gradhook.float32) if lr else 0.125
    optimizer = getattr(optim, kind)([p], lr=rate)
    given = [rng.standard_normal((4, 3)).astype(dtype) for _ in range(3)]
    gradients = [gradhook.tensor(g, device=device) for g in given]
    for step, g in enumerate(gradients):
        p.grad = g
        if counters and step == 1:
            counters(reset=True)
        optimizer.step()
    if counters:
        assert not any(counters()[k] for k in QUIET), counters()
    return p.detach().cpu().numpy()


@pytest.mark.parametrize("kind", KINDS.split())
@pytest.mark.parametrize("lr", [None, "cpu", "cuda"])
def test_a_step_reads_nothing_wherever_the_learning_rate_is(kind, lr, device_counters):
    dtype = "float64" if kind == "Muon" else "float32"  # its iterations enlarge what was rounded
    found = trained(kind, "cuda", lr, device_counters, dtype)
    expected = trained(kind, "cpu", lr and "cpu", dtype=dtype)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "kind", ["Adadelta", "Adagrad", "Adam", "Adamax", "ASGD", "NAdam", "RMSprop"]
)
def test_complex_parameters_take_array_calls_that_read_nothing(kind, device_counters):
    found = trained(kind, "cuda", None, device_counters, "complex64")
    np.testing.assert_allclose(found, trained(kind, "cpu", None, None, "complex64"), rtol=2e-5)


def test_an_average_of_weights_counts_without_a_read(device_counters):
    model = nn.Linear(3, 2, device="cuda")
    average = optim.swa_utils.AveragedModel(model, device="cuda")
    average.update_parameters(model)
    device_counters(reset=True)
    for _ in range(2):
        average.update_parameters(model)
    assert not any(device_counters()[k] for k in QUIET)
    assert average.n_averaged.item() == 3
    np.testing.assert_allclose(
        average.module.weight.detach().cpu().numpy(), model.weight.detach().cpu().numpy(), rtol=1e-6
    )


def test_a_state_from_the_host_loads_onto_the_device_with_its_numbers_on_the_host():
    p = nn.Parameter(gradhook.ones(2, device="cpu"))
    optimizer = optim.NAdam([p])
    p.grad = gradhook.ones(2, device="cpu")
    optimizer.step()
    q = nn.Parameter(gradhook.ones(2, device="cuda"))
    other = optim.NAdam([q])
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = saved["state"][0]["step"].to("cuda")  # as with capturable
    other.load_state_dict(saved)
    where = {name: value.device.type for name, value in other.state[q].items()}
    assert where == {"step": "cpu", "mu_product": "cpu", "exp_avg": "cuda", "exp_avg_sq": "cuda"}


def test_l_bfgs_works_on_the_device():
    found = []
    for device in ("cpu", "cuda"):
        p = nn.Parameter(gradhook.tensor([-1.2, 1.0], dtype=gradhook.float64, device=device))
        optimizer = optim.LBFGS([p], max_iter=15, line_search_fn="strong_wolfe")

        def closure(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
            loss.backward()
            return loss

        optimizer.step(closure)
        found.append(p.detach().cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
