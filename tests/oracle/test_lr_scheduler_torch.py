"""Learning-rate schedulers beside torch's: rates, momenta, states, both ways."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Decay:
    """A callable object, whose attributes a state_dict keeps."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, epoch):
        return self.rate**epoch


CASES = {
    "LambdaLR": [{"lr_lambda": [Decay(0.9), Decay(0.5)]}, {"lr_lambda": lambda e: 1 / (1 + e)}],
    "MultiplicativeLR": [{"lr_lambda": lambda e: 0.9}, {"lr_lambda": [Decay(0.9), Decay(0.8)]}],
    "StepLR": [{"step_size": 2}, {"step_size": 3, "gamma": 0.5}],
    "MultiStepLR": [{"milestones": [2, 4, 4, 7], "gamma": 0.5}],
    "ConstantLR": [{}, {"factor": 0.25, "total_iters": 3}],
    "LinearLR": [{}, {"start_factor": 0.1, "end_factor": 0.6, "total_iters": 4}],
    "ExponentialLR": [{"gamma": 0.7}],
    "PolynomialLR": [{}, {"total_iters": 6, "power": 2.5}],
    "CosineAnnealingLR": [{"T_max": 4}, {"T_max": 3, "eta_min": 0.01}],
    "CosineAnnealingWarmRestarts": [{"T_0": 2}, {"T_0": 2, "T_mult": 3, "eta_min": 0.01}],
    "CyclicLR": [
        {"base_lr": 0.01, "max_lr": [0.1, 0.2], "step_size_up": 3, "step_size_down": 2},
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2, "mode": "triangular2"},
        {"base_lr": 0.01, "max_lr": 0.1, "mode": "exp_range", "gamma": 0.9, "step_size_up": 3},
        {"base_lr": 0.01, "max_lr": 0.1, "scale_fn": Decay(0.8), "cycle_momentum": False},
    ],
    "OneCycleLR": [
        {"max_lr": 0.5, "total_steps": 13},
        {"max_lr": [0.5, 0.2], "epochs": 4, "steps_per_epoch": 3, "anneal_strategy": "linear"},
        {"max_lr": 0.5, "total_steps": 13, "three_phase": True, "pct_start": 0.25},
    ],
    "SWALR": [{"swa_lr": 0.02, "anneal_epochs": 4}, {"swa_lr": [0.1, 0.2], "anneal_epochs": 0}],
}
EACH = [pytest.param(n, o, id=f"{n}-{k}") for n, rows in CASES.items() for k, o in enumerate(rows)]


def optimizer(lib, kind="SGD"):
    params = [lib.nn.Parameter(lib.ones(2)) for _ in range(2)]
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.02}]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(lib.optim, kind)(groups, lr=0.1, **options)


def scheduler(lib, name, given, **options):
    module = lib.optim.swa_utils if name == "SWALR" else lib.optim.lr_scheduler
    return getattr(module, name)(given, **copy.deepcopy(options))


def rates(given):
    rows = []
    for group in given.param_groups:
        momentum = group["betas"][0] if "betas" in group else group["momentum"]
        rows.append((float(group["lr"]), momentum))
    return rows


def stepped(given, schedule, count=11):
    rows = [rates(given)]
    for _ in range(count):
        given.step()
        schedule.step()
        rows.append(rates(given))
    return np.array(rows)


@pytest.mark.parametrize(("name", "options"), EACH)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_rates_and_momenta_agree(name, options, kind):
    found = []
    for lib in (torch, gradhook):
        given = optimizer(lib, kind)
        schedule = scheduler(lib, name, given, **options)
        found.append((stepped(given, schedule), schedule))
    (theirs, a), (ours, b) = found
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(b.get_last_lr(), a.get_last_lr(), rtol=1e-12, atol=1e-15)
    assert set(b.state_dict()) == set(a.state_dict())


@pytest.mark.parametrize(("name", "options"), EACH)
@pytest.mark.parametrize("ours_first", [True, False])
def test_a_state_goes_on_in_the_other_library(name, options, ours_first):
    first, second = (gradhook, torch) if ours_first else (torch, gradhook)
    a, b = optimizer(first), optimizer(second)
    schedule, other = (scheduler(lib, name, o, **options) for lib, o in ((first, a), (second, b)))
    stepped(a, schedule, 4)
    other.load_state_dict(copy.deepcopy(schedule.state_dict()))
    b.load_state_dict(a.state_dict())
    np.testing.assert_allclose(stepped(b, other, 5), stepped(a, schedule, 5), rtol=1e-12)


CLOSED = [n for n in CASES if n not in ("CyclicLR", "OneCycleLR", "SWALR", "MultiplicativeLR")]


@pytest.mark.parametrize("name", CLOSED)
def test_an_epoch_may_be_given(name):
    rows = []
    for lib in (torch, gradhook):
        given = optimizer(lib)
        schedule = scheduler(lib, name, given, **CASES[name][-1])
        for epoch in (3, 1, 9):
            given.step()
            schedule.step(epoch)
            rows.append(rates(given))
    np.testing.assert_allclose(rows[3:], rows[:3], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["StepLR", "CosineAnnealingLR", "LinearLR", "ExponentialLR"])
def test_training_resumes_at_an_epoch(name):
    rows = []
    for lib in (torch, gradhook):
        given = optimizer(lib)
        for group in given.param_groups:
            group["initial_lr"] = 0.5
        schedule = scheduler(lib, name, given, **CASES[name][-1], last_epoch=3)
        rows.append(stepped(given, schedule, 6))
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-12)


PLATEAU = [
    {"patience": 1, "factor": 0.5},
    {"mode": "max", "patience": 0, "cooldown": 2, "threshold": 0.1},
    {"threshold_mode": "abs", "threshold": 0.5, "patience": 0, "min_lr": [0.05, 0.001]},
]


@pytest.mark.parametrize("options", PLATEAU)
def test_plateaus_agree(options):
    rows, states = [], []
    for lib in (torch, gradhook):
        given = optimizer(lib)
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(given, **options)
        for metric in (5, 4, 4, 3.9, 6, 6, 1, 1, 1.2, 0.9):
            schedule.step(lib.tensor(metric))
            rows.append(rates(given))
        states.append(schedule.state_dict())
    np.testing.assert_allclose(rows[10:], rows[:10])
    assert states[0] == states[1]


@pytest.mark.parametrize("kind", ["sequence", "chain"])
def test_composed_schedulers_agree(kind):
    found = []
    for lib in (torch, gradhook):
        given, module = optimizer(lib), lib.optim.lr_scheduler
        constant = module.ConstantLR(given, factor=0.1, total_iters=2)
        falling = module.ExponentialLR(given, gamma=0.9)
        if kind == "chain":
            schedule = module.ChainedScheduler([constant, falling])
        else:
            steps = module.StepLR(given, 2)
            schedule = module.SequentialLR(given, [constant, falling, steps], [3, 6])
        found.append((stepped(given, schedule), schedule))
    (theirs, a), (ours, b) = found
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert set(b.state_dict()) == set(a.state_dict())
    for x, y in zip(a.state_dict()["_schedulers"], b.state_dict()["_schedulers"], strict=True):
        assert set(x) == set(y)


def test_averaged_models_agree():
    rows = []
    for lib in (torch, gradhook):
        utils = lib.optim.swa_utils
        for options in (
            {},
            {"avg_fn": utils.get_ema_avg_fn(0.75)},
            {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.75), "use_buffers": True},
            {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
        ):
            model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
            average = utils.AveragedModel(model, **options)
            for k in range(4):
                with lib.no_grad():
                    for p in model.parameters():
                        p.fill_(float(k * k))
                    model[1].running_mean.fill_(float(k))
                average.update_parameters(model)
            rows.append([v.float().mean().item() for v in average.state_dict().values()])
            rows.append(sorted(average.state_dict()))
    for ours, theirs in zip(rows[8:], rows[:8], strict=True):
        if isinstance(ours[0], str):
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_statistics_of_batch_normalisation_are_computed_anew():
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((5, 3)).astype("f4") for _ in range(3)]
    found = []
    for lib in (torch, gradhook):
        model = lib.nn.Sequential(lib.nn.BatchNorm1d(3)).eval()
        lib.optim.swa_utils.update_bn([(lib.tensor(b), None) for b in batches], model)
        assert model[0].momentum == 0.1 and not model.training
        found.append([v.numpy() for v in model[0].state_dict().values()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)


def test_refusals_agree():
    wrong = [
        lambda m, o: m.ConstantLR(o, factor=2.0),
        lambda m, o: m.LinearLR(o, start_factor=0.0),
        lambda m, o: m.LinearLR(o, end_factor=2.0),
        lambda m, o: m.LambdaLR(o, [lambda e: 1]),
        lambda m, o: m.MultiplicativeLR(o, 3),
        lambda m, o: m.CosineAnnealingWarmRestarts(o, 0),
        lambda m, o: m.CosineAnnealingWarmRestarts(o, 1, 0.5),
        lambda m, o: m.CosineAnnealingWarmRestarts(o, 1, eta_min="0"),
        lambda m, o: m.CyclicLR(o, 0.1, 0.2, mode="other"),
        lambda m, o: m.CyclicLR(o, [0.1], 0.2),
        lambda m, o: m.OneCycleLR(o, 0.1),
        lambda m, o: m.OneCycleLR(o, 0.1, total_steps=0),
        lambda m, o: m.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=1),
        lambda m, o: m.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=-1),
        lambda m, o: m.OneCycleLR(o, 0.1, 5, pct_start=2.0),
        lambda m, o: m.OneCycleLR(o, 0.1, 5, anneal_strategy="other"),
        lambda m, o: m.ReduceLROnPlateau(o, factor=1.0),
        lambda m, o: m.ReduceLROnPlateau(o, mode="other"),
        lambda m, o: m.ReduceLROnPlateau(o, threshold_mode="other"),
        lambda m, o: m.ReduceLROnPlateau(o, min_lr=[0.1]),
        lambda m, o: m.SequentialLR(o, [], []),
        lambda m, o: m.SequentialLR(o, [m.ConstantLR(o)], [1]),
        lambda m, o: m.SequentialLR(o, [3], []),
        lambda m, o: m.ChainedScheduler([]),
        lambda m, o: m.ChainedScheduler([m.ReduceLROnPlateau(o)]),
        lambda m, o: m.StepLR(3, 1),
        lambda m, o: m.StepLR(o, 1, last_epoch=2),
    ]
    for refuse in wrong:
        raised = []
        for lib in (torch, gradhook):
            with pytest.raises(Exception) as found:
                refuse(lib.optim.lr_scheduler, optimizer(lib))
            raised.append(found.value)
        assert type(raised[0]) is type(raised[1])
        if not isinstance(raised[0], KeyError):
            assert str(raised[1]) == str(raised[0])


def test_the_order_of_steps_is_warned_of_alike():
    for lib in (torch, gradhook):
        given = optimizer(lib)
        schedule = lib.optim.lr_scheduler.StepLR(given, 1)
        with pytest.warns(
            UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"
        ):
            schedule.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            given.step()
            schedule.step()
        with pytest.warns(UserWarning, match="use `get_last_lr"):
            schedule.get_lr()
