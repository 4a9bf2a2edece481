"""Optimizers: groups, arithmetic by hand, state, and errors in PyTorch's words."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gradhook
from gradhook import nn, optim


def parameter(*values):
    return nn.Parameter(gradhook.tensor(list(values), dtype=gradhook.float64))


def with_grad(p, *values):
    p.grad = gradhook.tensor(list(values), dtype=gradhook.float64)
    return p


def test_sgd_by_hand():
    p = with_grad(parameter(1.0, 2.0), 1.0, -1.0)
    optim.SGD([p], lr=0.1).step()
    np.testing.assert_allclose(p.detach().cpu().numpy(), [0.9, 2.1])


def test_sgd_with_momentum_decay_and_dampening_by_hand():
    p = parameter(1.0)
    opt = optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.2)
    value, buffer = 1.0, None
    for g in (1.0, 2.0, -1.0):
        d = g + 0.2 * value
        buffer = d if buffer is None else 0.9 * buffer + 0.5 * d
        value -= 0.1 * buffer
        with_grad(p, g)
        opt.step()
        assert p.item() == pytest.approx(value)
    assert opt.state[p]["momentum_buffer"].item() == pytest.approx(buffer)


def test_maximize_climbs_and_nesterov_looks_ahead():
    p = with_grad(parameter(1.0), 2.0)
    optim.SGD([p], lr=0.5, maximize=True).step()
    assert p.item() == 2
    p = with_grad(parameter(1.0), 2.0)
    optim.SGD([p], lr=0.5, momentum=0.5, nesterov=True).step()
    assert p.item() == 1 - 0.5 * (2 + 0.5 * 2)


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_by_its_paper(kind, amsgrad):
    p = parameter(1.0, -2.0)
    opt = kind([p], lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1, amsgrad=amsgrad)
    value, m, v, top = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2), np.zeros(2)
    for t, g in enumerate(([1.0, 3.0], [2.0, -1.0], [0.1, 0.2]), 1):
        with_grad(p, *g)
        opt.step()
        d = np.array(g)
        if kind is optim.AdamW:
            value = value * (1 - 0.1 * 0.1)
        else:
            d = d + 0.1 * value
        m, v = 0.8 * m + 0.2 * d, 0.9 * v + 0.1 * d * d
        top = np.maximum(top, v) if amsgrad else v
        root = np.sqrt(top / (1 - 0.9**t)) + 1e-3
        value = value - 0.1 * (m / (1 - 0.8**t)) / root
        np.testing.assert_allclose(p.detach().cpu().numpy(), value, rtol=1e-12)
    assert sorted(opt.state[p]) == ["exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * amsgrad, "step"]
    assert opt.state[p]["step"].item() == 3


def test_a_parameter_without_gradient_stays_and_has_no_state():
    p, q = parameter(1.0), with_grad(parameter(1.0), 1.0)
    opt = optim.Adam([p, q])
    opt.step()
    assert p.item() == 1 and p not in opt.state and q.item() != 1


def test_groups_have_options_of_their_own():
    p, q = with_grad(parameter(1.0), 1.0), with_grad(parameter(1.0), 1.0)
    opt = optim.SGD([{"params": [p], "lr": 0.5}, {"params": [q]}], lr=0.1)
    opt.step()
    assert (p.item(), q.item()) == (0.5, 0.9)
    r = with_grad(parameter(1.0), 1.0)
    opt.add_param_group({"params": r, "lr": 1.0})
    opt.param_groups[0]["lr"] = 0.0
    opt.step()
    assert (p.item(), q.item(), r.item()) == (0.5, 0.8, 0.0)


def test_a_step_is_outside_the_graph_and_counts_as_a_write():
    p = parameter(1.0)
    loss = (p * p).sum()
    with_grad(p, 1.0)
    optim.SGD([p], lr=0.1).step()
    assert p.is_leaf and p.requires_grad and p._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_closure_runs_with_gradients_and_its_value_is_returned():
    p = parameter(3.0)
    opt = optim.SGD([p], lr=0.1)

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with gradhook.no_grad():
        assert opt.step(closure).item() == 9
    assert p.item() == pytest.approx(3 - 0.6)


def test_zero_grad_forgets_or_zeroes():
    p = with_grad(parameter(1.0), 1.0)
    opt = optim.SGD([p])
    opt.zero_grad(set_to_none=False)
    assert p.grad.item() == 0
    opt.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
def test_a_saved_state_resumes_exactly(kind):
    options = {"momentum": 0.9} if kind is optim.SGD else {}
    p = parameter(1.0, 2.0)
    opt = kind([p], lr=0.05, **options)
    for _ in range(3):
        with_grad(p, 1.0, -2.0)
        opt.step()
    q = parameter(*p.tolist())
    other = kind([q], lr=1.0, **options)
    other.load_state_dict(pickle.loads(pickle.dumps(opt.state_dict())))
    for _ in range(3):
        with_grad(p, 0.5, 0.1)
        with_grad(q, 0.5, 0.1)
        opt.step()
        other.step()
    assert p.tolist() == q.tolist() and other.param_groups[0]["lr"] == 0.05


def test_a_state_dict_has_pytorch_s_layout_and_is_not_shared_after_loading():
    p, q = with_grad(parameter(1.0), 1.0), with_grad(parameter(1.0), 1.0)
    opt = optim.Adam([{"params": [p]}, {"params": [q], "lr": 0.5}])
    opt.step()
    state = opt.state_dict()
    assert list(state) == ["state", "param_groups"] and list(state["state"]) == [0, 1]
    assert [g["params"] for g in state["param_groups"]] == [[0], [1]]
    assert state["param_groups"][1]["lr"] == 0.5
    single = nn.Parameter(gradhook.ones(1))
    other = optim.Adam([{"params": [single]}, {"params": [nn.Parameter(gradhook.ones(1))]}])
    other.load_state_dict(state)
    loaded = other.state[single]
    assert loaded["exp_avg"].dtype == gradhook.float32
    assert loaded["step"].dtype == gradhook.float32
    loaded["exp_avg"].zero_()
    assert opt.state[p]["exp_avg"].item() != 0


def test_a_bad_state_dict_changes_nothing():
    p = with_grad(parameter(1.0), 1.0)
    opt = optim.Adam([p])
    opt.step()
    before = copy.deepcopy(opt.state_dict())
    for bad, error, text in (
        (3, TypeError, "expected an optimizer's state_dict"),
        ({"state": {}}, TypeError, "param_groups"),
        ({"state": {}, "param_groups": []}, ValueError, "different number of parameter groups"),
        (
            {"state": {}, "param_groups": [{"params": [0, 1]}]},
            ValueError,
            "doesn't match the size of optimizer's group",
        ),
    ):
        with pytest.raises(error, match=text):
            opt.load_state_dict(bad)
    after = opt.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert after["state"][0]["exp_avg"].item() == before["state"][0]["exp_avg"].item()


def test_deepcopy_and_pickle_keep_options():
    opt = optim.SGD([parameter(1.0)], lr=0.3)
    for twin in (copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))):
        p = twin.param_groups[0]["params"][0]
        with_grad(p, 1.0)
        twin.step()
        assert p.item() == pytest.approx(0.7)


def test_repr_lists_each_group_s_options():
    text = repr(optim.SGD([parameter(1.0)], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.1\n" in text and text.endswith("\n)")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda p: optim.SGD(p), TypeError, "should be an iterable of Tensors or dicts"),
        (lambda p: optim.SGD([]), ValueError, "empty parameter list"),
        (lambda p: optim.SGD([3]), TypeError, "can only optimize Tensors"),
        (lambda p: optim.SGD([p * 1]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda p: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (
            lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]),
            ValueError,
            "in more than one parameter group",
        ),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
        (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value"),
        (lambda p: optim.AdamW([p], weight_decay=-1), ValueError, "Invalid weight_decay value"),
    ],
)
def test_bad_arguments_are_named(make, error, text):
    with pytest.raises(error, match=text):
        make(parameter(1.0))


def test_a_parameter_listed_twice_is_warned_of_as_in_pytorch():
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([parameter(1.0)] * 2)


def test_names_may_come_with_the_parameters():
    net = nn.Linear(2, 1)
    opt = optim.SGD(net.named_parameters(), lr=0.1)
    assert opt.param_groups[0]["param_names"] == ["weight", "bias"]
    assert opt.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_training_lowers_the_loss():
    gradhook.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    opt = optim.AdamW(net.parameters(), lr=1e-2)
    x, y = gradhook.randn(60, 4), gradhook.arange(60) % 3
    first = None
    for _ in range(200):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        first = first or loss.item()
    assert loss.item() < 0.5 * first
