"""Elementwise optimizers: their formulas by hand, and what they share."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest

import gradhook
from gradhook import nn, optim

EACH = ["Adadelta", "Adagrad", "Adam", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]
GRADIENTS = (1.0, 2.0, -0.5)


def stepped(kind, gradients=GRADIENTS, start=1.0, **options):
    """The values of one parameter after each gradient, and its optimizer's state."""
    p = nn.Parameter(gradhook.tensor([start], dtype=gradhook.float64))
    optimizer = getattr(optim, kind)([p], **options)
    values = []
    for g in gradients:
        p.grad = gradhook.tensor([g], dtype=gradhook.float64)
        optimizer.step()
        values.append(p.item())
    return values, optimizer.state[p]


def test_rmsprop_by_hand():
    p, v, mean, buffer, expected = 1.0, 0.0, 0.0, 0.0, []
    for g in GRADIENTS:
        d = g + 0.1 * p
        v = 0.9 * v + 0.1 * d * d
        mean = 0.9 * mean + 0.1 * d
        buffer = 0.5 * buffer + d / (math.sqrt(v - mean * mean) + 0.01)
        p -= 0.2 * buffer
        expected.append(p)
    options = {"lr": 0.2, "alpha": 0.9, "eps": 0.01, "weight_decay": 0.1}
    found, state = stepped("RMSprop", **options, momentum=0.5, centered=True)
    assert found == pytest.approx(expected)
    assert sorted(state) == ["grad_avg", "momentum_buffer", "square_avg", "step"]


def test_adagrad_by_hand():
    p, total, expected = 1.0, 0.5, []
    for t, g in enumerate(GRADIENTS):
        total += g * g
        p -= 0.3 / (1 + t * 0.2) * g / (math.sqrt(total) + 0.01)
        expected.append(p)
    options = {"lr": 0.3, "lr_decay": 0.2, "initial_accumulator_value": 0.5, "eps": 0.01}
    found, state = stepped("Adagrad", **options)
    assert found == pytest.approx(expected) and state["sum"].item() == pytest.approx(total)


def test_adadelta_by_hand():
    p, v, u, expected = 1.0, 0.0, 0.0, []
    for g in GRADIENTS:
        v = 0.8 * v + 0.2 * g * g
        d = math.sqrt(u + 0.1) / math.sqrt(v + 0.1) * g
        u = 0.8 * u + 0.2 * d * d
        p -= 0.5 * d
        expected.append(p)
    assert stepped("Adadelta", lr=0.5, rho=0.8, eps=0.1)[0] == pytest.approx(expected)


def test_adamax_by_hand():
    p, m, u, expected = 1.0, 0.0, 0.0, []
    for t, g in enumerate(GRADIENTS, 1):
        m = 0.7 * m + 0.3 * g
        u = max(0.9 * u, abs(g) + 0.01)
        p -= 0.2 / (1 - 0.7**t) * m / u
        expected.append(p)
    assert stepped("Adamax", lr=0.2, betas=(0.7, 0.9), eps=0.01)[0] == pytest.approx(expected)


@pytest.mark.parametrize("decoupled", [False, True])
def test_nadam_by_hand(decoupled):
    p, m, v, product, expected = 1.0, 0.0, 0.0, 1.0, []
    for t, g in enumerate(GRADIENTS, 1):
        if decoupled:
            p *= 1 - 0.2 * 0.1
        else:
            g = g + 0.1 * p
        mu, ahead = (0.7 * (1 - 0.5 * 0.96 ** (k * 0.02)) for k in (t, t + 1))
        product *= mu
        m, v = 0.7 * m + 0.3 * g, 0.9 * v + 0.1 * g * g
        step = (1 - mu) / (1 - product) * g + ahead / (1 - product * ahead) * m
        p -= 0.2 * step / (math.sqrt(v / (1 - 0.9**t)) + 0.01)
        expected.append(p)
    options = {"lr": 0.2, "betas": (0.7, 0.9), "eps": 0.01, "momentum_decay": 0.02}
    found, state = stepped("NAdam", **options, weight_decay=0.1, decoupled_weight_decay=decoupled)
    assert found == pytest.approx(expected, rel=1e-6)  # mu_product is a float32, as in PyTorch
    assert state["mu_product"].item() == pytest.approx(product, rel=1e-6)


def test_radam_by_hand_before_and_after_it_is_rectified():
    p, m, v, expected, rectified = 1.0, 0.0, 0.0, [], []
    most = 2 / (1 - 0.9) - 1
    gradients = GRADIENTS * 4
    for t, g in enumerate(gradients, 1):
        m, v = 0.7 * m + 0.3 * g, 0.9 * v + 0.1 * g * g
        rho = most - 2 * t * 0.9**t / (1 - 0.9**t)
        step = m / (1 - 0.7**t)
        if rho > 5:
            r = (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)
            step *= math.sqrt(r * (1 - 0.9**t)) / (math.sqrt(v) + 0.01)
        p -= 0.2 * step
        expected.append(p)
        rectified.append(rho > 5)
    assert True in rectified and False in rectified
    found, _ = stepped("RAdam", gradients, lr=0.2, betas=(0.7, 0.9), eps=0.01)
    assert found == pytest.approx(expected)


def test_rprop_grows_while_the_sign_stays_and_turns_back_with_smaller_steps():
    found, state = stepped("Rprop", (1.0, 3.0, -1.0, -1.0), lr=0.1, step_sizes=(0.01, 0.11))
    # 0.1 down; 0.12 is clipped to 0.11; the sign turns: 0.055 and no move; then up by it
    assert found == pytest.approx([0.9, 0.79, 0.79, 0.845])
    assert state["step_size"].item() == pytest.approx(0.055) and state["prev"].item() == -1


def test_asgd_averages_from_t0_on():
    p, eta, mu, average, expected = 1.0, 0.1, 1.0, 0.0, []
    for t, g in enumerate(GRADIENTS * 2, 1):
        p = p * (1 - 0.2 * eta) - eta * g
        average += mu * (p - average)
        eta = 0.1 / (1 + 0.2 * 0.1 * t) ** 0.5
        mu = 1 / max(1, t - 2)
        expected.append(p)
    found, state = stepped("ASGD", GRADIENTS * 2, lr=0.1, lambd=0.2, alpha=0.5, t0=2)
    assert found == pytest.approx(expected)
    assert state["ax"].item() == pytest.approx(average)
    assert state["eta"].item() == pytest.approx(eta) and state["mu"].item() == pytest.approx(mu)


@pytest.mark.parametrize("kind", EACH)
def test_a_complex_parameter_is_stepped_as_two_real_ones(kind):
    z = nn.Parameter(gradhook.tensor([[1 + 2j], [3 - 1j]], dtype=gradhook.complex128))
    r = nn.Parameter(gradhook.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=gradhook.float64))
    first, second = getattr(optim, kind)([z], 0.1), getattr(optim, kind)([r], 0.1)
    for k in (1, 2, -3):
        z.grad = gradhook.tensor([[k + 1j], [2.0 - k * 1j]], dtype=gradhook.complex128)
        r.grad = gradhook.tensor([[k, 1.0], [2.0, -k]], dtype=gradhook.float64)
        first.step()
        second.step()
    pairs = z.detach().cpu().numpy().view("f8")
    np.testing.assert_allclose(pairs, r.detach().cpu().numpy(), rtol=1e-12)


@pytest.mark.parametrize("kind", EACH)
def test_a_parameter_of_any_layout_is_stepped_in_place(kind):
    rng = np.random.default_rng(0)
    values, gradients = rng.standard_normal((4, 3)), rng.standard_normal((2, 4, 3))
    whole = gradhook.tensor(np.ascontiguousarray(values.T))
    strided, plain = whole.t().detach().requires_grad_(), nn.Parameter(gradhook.tensor(values))
    optimizers = [getattr(optim, kind)([p], maximize=True) for p in (strided, plain)]
    for g in gradients:
        for p, optimizer in zip((strided, plain), optimizers, strict=True):
            p.grad = gradhook.tensor(g)
            version = p._version
            optimizer.step()
            assert p._version == version + 1
            np.testing.assert_array_equal(p.grad.cpu().numpy(), g)
    np.testing.assert_allclose(strided.detach().cpu().numpy(), plain.detach().cpu().numpy())
    np.testing.assert_array_equal(whole.cpu().numpy().T, strided.detach().cpu().numpy())


@pytest.mark.parametrize("kind", EACH)
def test_a_learning_rate_may_be_a_tensor(kind):
    found = stepped(kind, lr=gradhook.tensor(0.125, dtype=gradhook.float64))[0]
    assert found == pytest.approx(stepped(kind, lr=0.125)[0], rel=1e-6)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        stepped(kind, lr=gradhook.tensor([0.1, 0.2]))
    with pytest.raises(ValueError, match="Invalid learning rate"):
        stepped(kind, lr=gradhook.tensor(-1.0, device="cpu"))


@pytest.mark.parametrize("kind", EACH)
def test_a_half_parameter_keeps_its_dtype_and_warns_of_nothing(kind):
    p = nn.Parameter(gradhook.tensor([1.0, 0.0], dtype=gradhook.float16))
    optimizer = getattr(optim, kind)([p], 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            p.grad = gradhook.tensor([300.0, 0.0], dtype=gradhook.float16)
            optimizer.step()
    arrays = {k: v for k, v in optimizer.state[p].items() if k not in optimizer.host_scalars}
    assert {p.dtype, *[v.dtype for v in arrays.values()]} == {gradhook.float16}


@pytest.mark.parametrize("kind", EACH)
def test_a_loaded_state_goes_on_where_it_was(kind):
    def one(p, optimizer, g):
        p.grad = gradhook.tensor([g, -g], dtype=gradhook.float32)
        optimizer.step()

    p = nn.Parameter(gradhook.tensor([1.0, -2.0]))
    optimizer = getattr(optim, kind)([p], 0.1)
    for g in (1.0, 2.0):
        one(p, optimizer, g)
    q = nn.Parameter(p.detach().clone())
    other = getattr(optim, kind)([q], 0.5)
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    saved["state"][0]["step"] = 2  # as files of older versions have it
    other.load_state_dict(saved)
    for g in (-1.0, 0.5):
        one(p, optimizer, g)
        one(q, other, g)
    assert p.tolist() == q.tolist()
    assert all(isinstance(v, gradhook.Tensor) for v in other.state[q].values())


def test_the_numbers_of_a_half_parameter_s_state_stay_wide_when_loaded():
    p = nn.Parameter(gradhook.ones(2, dtype=gradhook.float16))
    optimizer = optim.NAdam([p])
    p.grad = gradhook.ones(2, dtype=gradhook.float16)
    optimizer.step()
    before = optimizer.state[p]["mu_product"].item()
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[p]["mu_product"].item() == before


def test_an_option_that_comes_later_gets_its_state():
    p = nn.Parameter(gradhook.ones(2))
    optimizer = optim.RMSprop([p])
    for momentum in (0.0, 0.9):
        optimizer.param_groups[0]["momentum"] = momentum
        p.grad = gradhook.ones(2)
        optimizer.step()
    assert "momentum_buffer" in optimizer.state[p]


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("RMSprop", {"momentum": -1.0}, "Invalid momentum value: -1.0"),
        ("RMSprop", {"alpha": -1.0}, "Invalid alpha value: -1.0"),
        ("NAdam", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        ("NAdam", {"momentum_decay": -0.1}, "Invalid momentum_decay value: -0.1"),
        ("RAdam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("Adamax", {"eps": -1}, "Invalid epsilon value: -1"),
        ("Adagrad", {"lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value"),
        ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
        ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
        ("ASGD", {"lr": float("nan")}, "Invalid learning rate: nan"),
    ],
)
def test_values_out_of_range_are_refused_in_pytorch_s_words(kind, options, text):
    with pytest.raises(ValueError, match="^" + text):
        getattr(optim, kind)([nn.Parameter(gradhook.ones(2))], **options)


@pytest.mark.parametrize("kind", [*EACH, "SGD", "AdamW", "Adafactor"])
def test_an_optimizer_in_backward_trains_alike_and_keeps_one_gradient_at_most(kind):
    def trained(in_backward):
        gradhook.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 1))
        params, alive = list(model.parameters()), []
        optimizers = {p: getattr(optim, kind)([p], lr=0.01) for p in params}

        def step(p):
            alive.append(sum(q.grad is not None for q in params))
            optimizers[p].step()
            optimizers[p].zero_grad()

        if in_backward:
            for p in params:
                p.register_post_accumulate_grad_hook(step)
        for k in range(3):
            model(gradhook.ones(2, 3) * (k + 1)).sum().backward()
            for p in () if in_backward else params:
                step(p)
        assert len(alive) == 3 * len(params) and (not in_backward or set(alive) == {1})
        return [p.tolist() for p in params]

    assert trained(True) == trained(False)
