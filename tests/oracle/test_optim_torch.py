"""Optimizers beside torch's: ten steps from the same start with the same gradients."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
from gradhook import nn, optim  # noqa: E402

DECOUPLED = {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}
CASES = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    ],
    "Adam": [
        {},
        {"lr": 0.05, "betas": (0.5, 0.8), "eps": 1e-4, "weight_decay": 0.2},
        {"lr": 0.05, "amsgrad": True, "maximize": True},
    ],
    "AdamW": [{}, {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}],
    "RMSprop": [{}, {"momentum": 0.9, "weight_decay": 0.1}, {"centered": True, "maximize": True}],
    "NAdam": [{}, {"weight_decay": 0.1, "maximize": True}, DECOUPLED],
    "RAdam": [{}, {"betas": (0.5, 0.8), "weight_decay": 0.1}, {**DECOUPLED, "betas": (0.5, 0.8)}],
    "Adamax": [{}, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}],
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.5, "initial_accumulator_value": 0.3}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.6, "weight_decay": 0.1}],
    "Rprop": [{}, {"lr": 0.3, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.4), "maximize": True}],
    "ASGD": [{}, {"lr": 0.1, "t0": 3, "lambd": 0.1, "weight_decay": 0.1}],
    "Adafactor": [
        {},
        {"maximize": True},
        {"lr": 0.1, "eps": (1e-4, 1e-2), "d": 2.0, "weight_decay": 0.1},
    ],
}
EACH = [pytest.param(n, o, id=f"{n}-{k}") for n, rows in CASES.items() for k, o in enumerate(rows)]
SHAPES = ((3, 4), (4,), ())


def starts(dtype):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(dtype) for s in SHAPES]


@pytest.mark.parametrize(("name", "options"), EACH)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ten_steps_agree(name, options, dtype):
    rng = np.random.default_rng(1)
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in starts(dtype)]
    ours = [nn.Parameter(gradhook.tensor(a)) for a in starts(dtype)]
    a, b = getattr(torch.optim, name)(theirs, **options), getattr(optim, name)(ours, **options)
    for step in range(10):
        for p, q in zip(theirs, ours, strict=True):
            g = np.asarray(rng.standard_normal(tuple(p.shape)), dtype)
            skipped = step == 2 and p.ndim == 1
            p.grad = None if skipped else torch.tensor(g)
            q.grad = None if skipped else gradhook.tensor(g)
        a.step()
        b.step()
        tolerance = 1e-10 if dtype == "float64" else 1e-4
        for p, q in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(
                q.detach().numpy(), p.detach().numpy(), rtol=tolerance, atol=tolerance * 0.1
            )
    assert repr(b) == repr(a)
    assert {k: sorted(v) for k, v in b.state_dict()["state"].items()} == {
        k: sorted(v) for k, v in a.state_dict()["state"].items()
    }
    assert [sorted(g) for g in b.state_dict()["param_groups"]] == [
        sorted(g) for g in a.state_dict()["param_groups"]
    ]


def gradients(params, rng, dtype):
    return [np.asarray(rng.standard_normal(tuple(p.shape))).astype(dtype) for p in params]


def both(make, arrays):
    """(library, its tensor, its optimizer, its parameters) of torch and gradhook."""
    found = []
    for lib in (torch, gradhook):
        params = [lib.nn.Parameter(lib.tensor(a)) for a in arrays]
        found.append((lib, make(lib.optim, params), params))
    return found


def run(sides, steps, rng, dtype):
    """The same gradients for both sides; the parameters then."""
    for _ in range(steps):
        given = gradients(sides[0][2], rng, dtype)
        for lib, optimizer, params in sides:
            for p, g in zip(params, given, strict=True):
                p.grad = lib.tensor(g)
            optimizer.step()
    return [[p.detach().numpy() for p in params] for _, _, params in sides]


@pytest.mark.parametrize("name", [n for n in CASES if n != "Adafactor"])
def test_complex_parameters_agree(name):
    rng = np.random.default_rng(2)
    arrays = [a + 1j * rng.standard_normal(a.shape) for a in starts("complex128")]
    sides = both(lambda lib, p: getattr(lib, name)(p, **CASES[name][-1]), arrays)
    for _ in range(5):
        for k, p in enumerate(sides[0][2]):
            g = rng.standard_normal(tuple(p.shape)) + 1j * rng.standard_normal(tuple(p.shape))
            for lib, _, params in sides:
                params[k].grad = lib.tensor(np.asarray(g))
        for _, optimizer, _ in sides:
            optimizer.step()
    for p, q in zip(sides[0][2], sides[1][2], strict=True):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_float16_agrees_to_its_precision(name):
    sides = both(lambda lib, p: getattr(lib, name)(p, **CASES[name][-1]), starts("float16"))
    theirs, ours = run(sides, 4, np.random.default_rng(3), "float16")
    for p, q in zip(theirs, ours, strict=True):
        assert q.dtype == p.dtype
        np.testing.assert_allclose(q.astype("f4"), p.astype("f4"), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", CASES)
def test_a_tensor_learning_rate_agrees(name):
    options = {**CASES[name][-1]}
    options.pop("lr", None)
    sides = []
    for lib in (torch, gradhook):
        params = [lib.nn.Parameter(lib.tensor(a)) for a in starts("float64")]
        lr = lib.tensor(0.0625, dtype=lib.float64)
        sides.append((lib, getattr(lib.optim, name)(params, lr=lr, **options), params))
    theirs, ours = run(sides, 4, np.random.default_rng(4), "float64")
    for p, q in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(q, p, rtol=1e-6)


def as_other(value, tensor):
    """A state_dict's tensors as those of the other library."""
    if isinstance(value, dict):
        return {k: as_other(v, tensor) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(as_other(v, tensor) for v in value)
    if hasattr(value, "detach"):
        return tensor(value.detach().numpy().copy())
    return value


def quadratic(lib, optimizer, params):
    """What LBFGS calls: a loss whose gradients are set by hand."""

    def closure():
        total = 0.0
        for k, p in enumerate(params):
            x = p.detach().numpy()
            total += float(((1 + k) * (x - 0.3) ** 2 + 0.1 * x**4).sum())
            p.grad = lib.tensor(np.asarray(2 * (1 + k) * (x - 0.3) + 0.4 * x**3, x.dtype))
        return lib.tensor(np.asarray(total))

    return lambda: optimizer.step(closure)


@pytest.mark.parametrize("name", [*CASES, "Muon", "LBFGS"])
@pytest.mark.parametrize("ours_first", [True, False])
def test_a_state_dict_goes_on_in_the_other_library(name, ours_first):
    arrays = starts("float64") if name != "Muon" else [np.random.default_rng(5).random((3, 4))]
    options = CASES[name][-1] if name in CASES else {"lr": 0.05}
    sides = both(lambda lib, p: getattr(lib, name)(p, **options), arrays)
    (la, a, pa), (lb, b, pb) = reversed(sides) if ours_first else sides
    rng = np.random.default_rng(6)
    if name == "LBFGS":
        quadratic(la, a, pa)()
    else:
        run([(la, a, pa)], 3, rng, "float64")
    for p, q in zip(pa, pb, strict=True):
        with lb.no_grad():
            q.copy_(lb.tensor(p.detach().numpy()))
    b.load_state_dict(as_other(a.state_dict(), lb.tensor))
    groups = [side.state_dict()["param_groups"][0] for side in (a, b)]
    assert set(groups[0]) == set(groups[1]) and repr(a) == repr(b)
    if name == "LBFGS":
        for side in ((la, a, pa), (lb, b, pb)):
            quadratic(*side)()
        first, second = ([p.detach().numpy() for p in params] for params in (pa, pb))
    else:
        first, second = run([(la, a, pa), (lb, b, pb)], 3, rng, "float64")
    for p, q in zip(first, second, strict=True):
        np.testing.assert_allclose(q, p, rtol=1e-6, atol=1e-9)


SEARCH = {"line_search_fn": "strong_wolfe"}
LBFGS = [{"lr": 0.1, "max_iter": 7}, {**SEARCH, "history_size": 3}, {**SEARCH, "lr": 10.0}]
LBFGS += [{**SEARCH, "max_eval": 4}]
# From a first step of 0.001 the search goes by differences that float32 rounds away.
LBFGS_ROWS = [(o, d) for o in LBFGS for d in ("float64", "float32")]
LBFGS_ROWS += [({**SEARCH, "lr": 1e-3}, "float64")]


@pytest.mark.parametrize(("options", "dtype"), LBFGS_ROWS)
def test_lbfgs_agrees(options, dtype):
    sides = both(lambda lib, p: lib.LBFGS(p, **options), starts(dtype))
    tolerance = 1e-9 if dtype == "float64" else 1e-3
    for _ in range(3):
        for side in sides:
            quadratic(*side)()
        for p, q in zip(sides[0][2], sides[1][2], strict=True):
            np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=tolerance)
    a, b = (optimizer.state_dict()["state"][0] for _, optimizer, _ in sides)
    assert set(a) == set(b) and a["func_evals"] == b["func_evals"] and a["n_iter"] == b["n_iter"]


MUON = [{"lr": 0.1}, {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}]


@pytest.mark.parametrize("shape", [(3, 4), (20, 7), (16, 40)])
@pytest.mark.parametrize("options", MUON)
def test_muon_agrees_to_the_rounding_of_bfloat16(shape, options):
    arrays = [np.random.default_rng(7).standard_normal(shape)]
    sides = both(lambda lib, p: lib.Muon(p, **options), arrays)
    theirs, ours = run(sides, 4, np.random.default_rng(8), "float64")
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=4 * 0.1 * 2**-7)
