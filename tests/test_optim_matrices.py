"""Adafactor, Muon and L-BFGS: what they do, by hand and by their promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradhook
from gradhook import nn, optim
from gradhook.optim.muon import bfloat16, orthogonal


def parameter(values):
    return nn.Parameter(gradhook.tensor(np.asarray(values, "f8")))


def test_adafactor_of_a_vector_by_hand():
    p = parameter([3.0, 4.0])
    optimizer = optim.Adafactor([p], lr=0.1, eps=(1e-3, 1e-3), weight_decay=0.5)
    value, v = np.array([3.0, 4.0]), np.zeros(2)
    for t, g in enumerate(([1.0, 2.0], [-1.0, 0.5]), 1):
        size = max(1e-3, math.sqrt((value**2).mean())) * min(0.1, 1 / math.sqrt(t))
        value = value * (1 - 0.1 * 0.5)
        v += t**-0.8 * (np.square(g) - v)
        u = np.array(g) / np.maximum(np.sqrt(v), 1e-3)
        value = value - size * u / max(1, math.sqrt((u**2).mean()))
        p.grad = gradhook.tensor(np.array(g))
        optimizer.step()
        np.testing.assert_allclose(p.detach().cpu().numpy(), value, rtol=1e-12)


def test_adafactor_keeps_a_row_and_a_column_of_a_matrix():
    p = parameter(np.ones((2, 3, 4)))
    optimizer = optim.Adafactor([p])
    g = np.arange(24.0).reshape(2, 3, 4)
    p.grad = gradhook.tensor(g)
    optimizer.step()
    state = optimizer.state[p]
    assert (state["row_var"].shape, state["col_var"].shape) == ((2, 3, 1), (2, 1, 4))
    np.testing.assert_allclose(state["row_var"].cpu().numpy(), (g * g).mean(-1, keepdims=True))
    np.testing.assert_allclose(state["col_var"].cpu().numpy(), (g * g).mean(-2, keepdims=True))


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_muon_steps_along_a_nearly_orthogonal_matrix(shape):
    p = parameter(np.zeros(shape))
    g = np.random.default_rng(0).standard_normal(shape)
    p.grad = gradhook.tensor(g)
    optim.Muon([p], lr=1.0).step()
    step = -p.detach().cpu().numpy() / max(1, shape[0] / shape[1]) ** 0.5
    values = np.linalg.svd(step, compute_uv=False)
    assert ((values > 0.6) & (values < 1.3)).all()
    assert (step * g).sum() > 0.8 * np.linalg.svd(g, compute_uv=False).sum() * values.min()


def test_muon_takes_matrices_only():
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        optim.Muon([parameter([1.0])])
    with pytest.raises(ValueError, match="is not supported"):
        optim.Muon([parameter([[1.0]])], adjust_lr_fn="other")
    with pytest.raises(ValueError, match="must be less than 100"):
        orthogonal(np, np.eye(2), (1, 1, 1), 100, 1e-7)


def test_bfloat16_rounds_to_the_nearest_even_of_eight_bits():
    given = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-9, -(1 + 2**-8 + 2**-20), 0, np.inf])
    expected = [1, 1 + 2**-6, 1, -(1 + 2**-7), 0, np.inf]
    np.testing.assert_array_equal(bfloat16(np, given), expected)
    assert np.isnan(bfloat16(np, np.array(np.nan)))


def rosenbrock(p, optimizer):
    calls = []

    def closure():
        optimizer.zero_grad()
        x, y = p[0], p[1]
        loss = (1 - x) ** 2 + 100 * (y - x * x) ** 2
        loss.backward()
        calls.append(loss.item())
        return loss

    return closure, calls


def test_lbfgs_with_a_line_search_finds_the_end_of_rosenbrock_s_valley():
    p = parameter([-1.2, 1.0])
    optimizer = optim.LBFGS([p], max_iter=60, tolerance_change=1e-15, line_search_fn="strong_wolfe")
    closure, calls = rosenbrock(p, optimizer)
    first = optimizer.step(closure)
    assert first.item() == calls[0] == pytest.approx(24.2)
    np.testing.assert_allclose(p.detach().cpu().numpy(), [1, 1], atol=1e-6)
    state = optimizer.state[p]
    assert state["func_evals"] == len(calls) < 80 and state["n_iter"] < 60


def test_lbfgs_minimises_a_quadratic_of_several_parameters():
    p, q = parameter([[1.0, -2.0]]), parameter(3.0)
    optimizer = optim.LBFGS([p, q], lr=0.5, max_iter=50, history_size=3)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum() * 2 + (q - 1) ** 2 + (p.sum() * q) * 0.5
        loss.backward()
        return loss

    optimizer.step(closure)
    closure()
    assert max(abs(p.grad.cpu().numpy()).max(), abs(q.grad.item())) < 1e-3
    assert len(optimizer.state[p]["old_dirs"]) <= 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lbfgs_comes_as_close_to_a_minimum_as_its_precision_allows(dtype):
    """A step that the loss, rounded, cannot show to be better is none too far."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(10):
        target = rng.standard_normal(20)
        p = nn.Parameter(gradhook.tensor(rng.standard_normal(20).astype(dtype)))
        goal = gradhook.tensor(target.astype(dtype))
        optimizer = optim.LBFGS([p], line_search_fn="strong_wolfe")

        def closure(p=p, optimizer=optimizer, goal=goal):
            optimizer.zero_grad()
            loss = ((p - goal).square() / 2 + p**4 / 10 + 1).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        end = np.zeros(20)
        for _ in range(50):  # Newton on x - target + 0.4 x^3 = 0
            end -= (end - target + 0.4 * end**3) / (1 + 1.2 * end**2)
        errors.append(abs(p.detach().cpu().numpy() - end).max())
    assert np.median(errors) < 6e-5


def test_lbfgs_has_one_group_and_one_line_search():
    p = parameter([1.0])
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        optim.LBFGS([{"params": [p]}, {"params": [parameter([1.0])]}])
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optim.LBFGS([p], line_search_fn="armijo").step(lambda: (p * p).sum())


def test_complex_parameters_are_refused_by_those_that_take_none():
    z = nn.Parameter(gradhook.ones(2, 2, dtype=gradhook.complex64))
    z.grad = gradhook.ones(2, 2, dtype=gradhook.complex64)
    for kind in (optim.Adafactor, optim.Muon):
        with pytest.raises(RuntimeError, match="does not support complex parameters"):
            kind([z]).step()
