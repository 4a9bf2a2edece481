"""Optimizers beside torch's: ten steps from the same start with the same gradients."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
from gradhook import nn, optim  # noqa: E402

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
