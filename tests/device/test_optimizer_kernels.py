"""Optimizer steps on CuPy arrays: one launch for all parameters of a dtype, equal to NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import backend, optim, profiler
from gradhook.kernels import optimizer as kernels

pytestmark = pytest.mark.cuda
SHAPES = [(4, 5), (5,), (30, 40), (), (3, 2, 2), (20_000,)]
TOLERANCE = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-13}
STEPS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "sgd decay": lambda p: optim.SGD(p, 0.1, weight_decay=0.1, maximize=True),
    "momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, 1e-2, eps=0.1),
    "amsgrad": lambda p: optim.Adam(p, 1e-2, eps=0.1, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, 1e-2, eps=0.1, maximize=True),
    "nadam": lambda p: optim.NAdam(p, 1e-2, eps=0.1, weight_decay=0.1),
    "nadam decoupled": lambda p: optim.NAdam(
        p, 1e-2, eps=0.1, weight_decay=0.1, decoupled_weight_decay=True, maximize=True
    ),
    "radam": lambda p: optim.RAdam(p, 1e-2, eps=0.1, weight_decay=0.1),
    "radam, rectified": lambda p: optim.RAdam(p, 1e-2, (0.5, 0.5), eps=0.1),
    "adamax": lambda p: optim.Adamax(p, 1e-2, eps=0.1, weight_decay=0.1),
    "adagrad": lambda p: optim.Adagrad(p, 1e-2, 0.1, initial_accumulator_value=0.5),
    "adadelta": lambda p: optim.Adadelta(p, 0.1, eps=0.1, weight_decay=0.1, maximize=True),
    "rmsprop": lambda p: optim.RMSprop(p, 1e-2, eps=0.1, weight_decay=0.1),
    "rmsprop, momentum": lambda p: optim.RMSprop(p, 1e-2, eps=0.1, momentum=0.9),
    "rmsprop, centred": lambda p: optim.RMSprop(p, 1e-2, eps=0.1, centered=True),
    "rmsprop, both": lambda p: optim.RMSprop(p, 1e-2, eps=0.1, centered=True, momentum=0.9),
    "rprop": lambda p: optim.Rprop(p, 0.1, step_sizes=(0.06, 0.13)),
    "asgd": lambda p: optim.ASGD(p, 0.1, lambd=0.1, t0=1, weight_decay=0.1),
}


def parameters(device, dtype, shapes=SHAPES):
    rng = np.random.default_rng(3)
    made = [gradhook.tensor(rng.standard_normal(s).astype(dtype), device=device) for s in shapes]
    return [p.requires_grad_() for p in made]


def give_gradients(params, number):
    rng = np.random.default_rng(number)
    for p in params:
        g = np.asarray(rng.standard_normal(tuple(p.shape))).astype(p.dtype.np)
        p.grad = gradhook.tensor(g, device=p.device)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", STEPS)
def test_a_step_equals_the_array_calls(name, dtype):
    after = {}
    for device in ("cpu", "cuda"):
        params = parameters(device, dtype)
        optimizer = STEPS[name](params)
        for step in range(3):
            give_gradients(params, step)
            with profiler.launches() as launched, profiler.transfers() as moved:
                optimizer.step()
            assert launched.count == (device == "cuda") and moved.count == 0
        after[device] = [p.detach().cpu().numpy().astype("f8") for p in params]
    for found, expected in zip(after["cuda"], after["cpu"], strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=3 * TOLERANCE[dtype])


def test_more_tensors_than_a_table_holds_take_another_launch():
    params = parameters("cuda", "float32", [(3,)] * (kernels.room(2) + 1))
    before = [p.detach().cpu().numpy() for p in params]
    give_gradients(params, 0)
    with profiler.launches() as launched:
        optim.SGD(params, 0.5).step()
    assert launched.count == 2
    for p, old in zip(params, before, strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), old - 0.5 * p.grad.cpu().numpy())


def test_a_table_goes_by_value_and_moves_nothing(device_counters):
    params = parameters("cuda", "float32")
    optimizer = optim.Adam(params)
    for step in range(2):
        give_gradients(params, step)
        device_counters(reset=True)
        optimizer.step()
    counted = device_counters()
    assert counted["launches"] == 1
    assert not any(counted[k] for k in ("h2d", "d2h", "syncs"))


def test_a_parameter_that_no_kernel_takes_is_stepped_by_array_calls():
    base = gradhook.tensor(np.arange(12.0).reshape(3, 4), device="cuda")
    strided = base.t().detach().requires_grad_()
    plain = gradhook.ones(3, device="cuda", requires_grad=True)
    optimizer = optim.SGD([strided, plain], 1.0, momentum=0.5)
    for _ in range(2):
        for p in (strided, plain):
            p.grad = gradhook.ones(*p.shape, device="cuda", dtype=p.dtype)
        optimizer.step()
    np.testing.assert_array_equal(plain.detach().cpu().numpy(), [-1.5] * 3)
    np.testing.assert_array_equal(
        strided.detach().cpu().numpy(), np.arange(12.0).reshape(3, 4).T - 2.5
    )


def test_clip_grad_norm_takes_two_launches_and_reads_nothing():
    params = parameters("cuda", "float32")
    give_gradients(params, 0)
    before = [p.grad.cpu().numpy() for p in params]
    norm = np.sqrt(sum((g.astype("f8") ** 2).sum() for g in before))
    with profiler.launches() as launched, profiler.transfers() as moved:
        total = gradhook.nn.utils.clip_grad_norm_(params, 2.0)
    assert launched.count == 2 and moved.count == 0
    np.testing.assert_allclose(total.cpu().numpy(), norm, rtol=1e-6)
    for p, old in zip(params, before, strict=True):
        np.testing.assert_allclose(p.grad.cpu().numpy(), old * 2 / (norm + 1e-6), rtol=1e-5)


def test_a_small_norm_leaves_the_gradients_as_they_are():
    params = parameters("cuda", "float64", [(5,), (7,)])
    give_gradients(params, 0)
    before = [p.grad.cpu().numpy().copy() for p in params]
    gradhook.nn.utils.clip_grad_norm_(params, 1e6)
    for p, old in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.grad.cpu().numpy(), old)


def test_zero_grad_is_one_launch():
    params = parameters("cuda", "float32")
    give_gradients(params, 0)
    versions = [p.grad._version for p in params]
    with profiler.launches() as launched:
        optim.SGD(params, 0.1).zero_grad(set_to_none=False)
    assert launched.count == 1
    assert all(not backend.to_host(p.grad._a).any() for p in params)
    assert [p.grad._version for p in params] == [v + 1 for v in versions]
