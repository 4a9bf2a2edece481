"""Learning-rate schedulers: by hand, their place in a training, their state."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import warnings
import weakref

import pytest

import gradhook
from gradhook import nn, optim
from gradhook.optim import lr_scheduler


@pytest.fixture
def optimizer():
    p = nn.Parameter(gradhook.ones(1))
    return optim.SGD([p], lr=1.0, momentum=0.5)


def run(optimizer, schedule, count=6):
    """The learning rate before each step."""
    found = []
    for _ in range(count):
        found.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return pytest.approx(found)


BY_HAND = [
    ("StepLR", {"step_size": 2, "gamma": 0.5}, [1, 1, 0.5, 0.5, 0.25, 0.25]),
    ("MultiStepLR", {"milestones": [1, 3, 3]}, [1, 0.1, 0.1, 1e-3, 1e-3, 1e-3]),
    ("ExponentialLR", {"gamma": 0.5}, [2.0**-k for k in range(6)]),
    ("ConstantLR", {"factor": 0.5, "total_iters": 2}, [0.5, 0.5, 1, 1, 1, 1]),
    ("LinearLR", {"start_factor": 0.25, "total_iters": 3}, [0.25, 0.5, 0.75, 1, 1, 1]),
    ("PolynomialLR", {"total_iters": 4, "power": 2}, [1, 9 / 16, 1 / 4, 1 / 16, 0, 0]),
    ("LambdaLR", {"lr_lambda": lambda e: 1 / (1 + e)}, [1 / (1 + k) for k in range(6)]),
    ("MultiplicativeLR", {"lr_lambda": lambda e: e}, [1, 1, 2, 6, 24, 120]),
    (
        "CosineAnnealingLR",
        {"T_max": 4},
        [(1 + math.cos(math.pi * k / 4)) / 2 for k in range(6)],
    ),
    (
        "CosineAnnealingWarmRestarts",
        {"T_0": 2, "T_mult": 2},
        [1, 0.5, 1, 0.85355339, 0.5, 0.1464466],
    ),
    ("CyclicLR", {"base_lr": 1, "max_lr": 3, "step_size_up": 2}, [1, 2, 3, 2, 1, 2]),
    (
        "OneCycleLR",
        {"max_lr": 25, "total_steps": 6, "pct_start": 0.5, "anneal_strategy": "linear"},
        [1, 13, 25, (50 + 1e-4) / 3, (25 + 2e-4) / 3, 1e-4],
    ),
]


@pytest.mark.parametrize(("name", "options", "expected"), BY_HAND, ids=[r[0] for r in BY_HAND])
def test_a_schedule_by_hand(optimizer, name, options, expected):
    schedule = getattr(lr_scheduler, name)(optimizer, **options)
    assert run(optimizer, schedule) == expected


def test_the_momentum_goes_the_other_way(optimizer):
    schedule = lr_scheduler.CyclicLR(
        optimizer, 1, 3, step_size_up=2, base_momentum=0.4, max_momentum=0.8
    )
    found = []
    for _ in range(5):
        found.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        schedule.step()
    assert found == pytest.approx([0.8, 0.6, 0.4, 0.6, 0.8])
    adam = optim.Adam([nn.Parameter(gradhook.ones(1))])
    lr_scheduler.OneCycleLR(adam, 1.0, 5, max_momentum=0.7)
    assert adam.param_groups[0]["betas"] == (0.7, 0.999)
    with pytest.raises(ValueError, match="optimizer must support momentum or beta1"):
        lr_scheduler.CyclicLR(optim.Adagrad([nn.Parameter(gradhook.ones(1))]), 0.1, 0.2)


def test_a_plateau_ends_in_a_smaller_rate_and_rest(optimizer):
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5, cooldown=2)
    found = []
    for metric in (5, 4, 4, gradhook.tensor(4.0), 4, 4, 4, 4):
        schedule.step(metric)
        found.append(optimizer.param_groups[0]["lr"])
    assert found == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]
    optimizer.add_param_group({"params": [nn.Parameter(gradhook.ones(1))], "lr": 1.0})
    for _ in range(6):
        schedule.step(9)
    assert optimizer.param_groups[1]["lr"] == 0.5


@pytest.mark.parametrize("inner", ["sequence", "chain"])
def test_a_sequence_may_hold_composed_schedulers(optimizer, inner):
    first = lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    parts = [
        lr_scheduler.ConstantLR(optimizer, factor=0.25, total_iters=2),
        lr_scheduler.ExponentialLR(optimizer, gamma=0.5),
    ]
    if inner == "sequence":
        later = lr_scheduler.SequentialLR(optimizer, parts, [2])
        expected = [0.5, 0.5, 0.25, 0.25, 1, 0.5, 0.25]
    else:
        later = lr_scheduler.ChainedScheduler(parts)
        expected = [0.5, 0.5, 0.25, 0.125, 0.25, 0.125, 0.0625]
    schedule = lr_scheduler.SequentialLR(optimizer, [first, later], [2])
    assert run(optimizer, schedule, 7) == expected


def test_a_tensor_rate_is_written_in_place_and_never_shared():
    lr = gradhook.tensor(1.0)
    optimizer = optim.SGD([nn.Parameter(gradhook.ones(1))], lr=lr)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    assert run(optimizer, schedule, 3) == [1, 0.5, 0.25]
    assert optimizer.param_groups[0]["lr"] is lr and lr.item() == 0.125
    schedule.get_last_lr()[0].fill_(9.0)
    assert lr.item() == 0.125 and schedule.base_lrs[0].item() == 1


@pytest.mark.parametrize("name", [r[0] for r in BY_HAND])
def test_a_saved_schedule_resumes_exactly(optimizer, name):
    options = next(o for n, o, _ in BY_HAND if n == name)
    schedule = getattr(lr_scheduler, name)(optimizer, **options)
    run(optimizer, schedule, 2)
    other = optim.SGD([nn.Parameter(gradhook.ones(1))], lr=1.0, momentum=0.5)
    resumed = getattr(lr_scheduler, name)(other, **options)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(pickle.loads(pickle.dumps(schedule.state_dict())))
    for _ in range(3):
        optimizer.step()
        other.step()
        schedule.step()
        resumed.step()
        assert resumed.get_last_lr() == schedule.get_last_lr()


class Rate:
    """A callable object."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, epoch):
        return self.rate**epoch


def test_of_functions_only_callable_objects_are_saved(optimizer):
    schedule = lr_scheduler.LambdaLR(optimizer, Rate(0.5))
    saved = schedule.state_dict()
    assert saved["lr_lambdas"] == [{"rate": 0.5}]
    other = lr_scheduler.LambdaLR(optimizer, Rate(0.9))
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].rate == 0.5
    assert lr_scheduler.LambdaLR(optimizer, lambda e: 1).state_dict()["lr_lambdas"] == [None]


def test_a_schedule_keeps_hooks_copies_and_lifetimes_of_its_optimizer(optimizer):
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    schedule = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    schedule.step()
    assert calls == [1]
    copied = copy.deepcopy(optimizer)
    copied.step()
    assert calls == [1, 1] and copied.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    pickle.loads(pickle.dumps(optimizer)).step()
    gone = weakref.ref(copied)
    lr_scheduler.StepLR(copied, 1)
    gc.disable()
    try:
        del copied
        assert gone() is None
    finally:
        gc.enable()


def test_the_wrong_order_is_warned_of(optimizer):
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    schedule = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="has been overridden"):
        schedule.step()
    schedule = lr_scheduler.StepLR(optimizer, 1)  # whose step is no method any more
    with pytest.warns(UserWarning, match="has been overridden"):
        schedule.step()


def test_one_cycle_has_an_end(optimizer):
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            schedule.step()
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        schedule.step()


def test_a_group_without_initial_rate_cannot_resume(optimizer):
    with pytest.raises(KeyError, match=r"param_groups\[0\] when resuming"):
        lr_scheduler.StepLR(optimizer, 1, last_epoch=3)
