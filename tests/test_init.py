"""nn.init: in place, outside the graph, returns its tensor, and the distribution it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradhook
from gradhook import nn
from gradhook.nn import init


@pytest.fixture(autouse=True)
def seed():
    gradhook.manual_seed(0)


def big():
    return nn.Parameter(gradhook.empty(200, 100))


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda t: init.uniform_(t, -1, 1), 1 / math.sqrt(3)),
        (lambda t: init.normal_(t, 0, 3), 3),
        (lambda t: init.xavier_uniform_(t), math.sqrt(2 / 300)),
        (lambda t: init.xavier_normal_(t, gain=2), 2 * math.sqrt(2 / 300)),
        (lambda t: init.kaiming_uniform_(t), math.sqrt(2 / 100)),
        (
            lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
            math.sqrt(2 / 200),
        ),
        (lambda t: init.trunc_normal_(t), 0.8796),
    ],
)
def test_random_fills_have_the_stated_spread_and_return_their_tensor(fill, std):
    t = big()
    assert fill(t) is t and t.requires_grad and t.is_leaf
    values = t.detach().cpu().numpy()
    assert abs(values.mean()) < 0.02 * std * 3
    assert abs(values.std() / std - 1) < 0.02


def test_trunc_normal_stays_inside_also_in_a_tail():
    values = init.trunc_normal_(gradhook.empty(2000), 0.0, 1.0, 1.0, 2.0).cpu().numpy()
    assert values.min() >= 1 and values.max() <= 2
    assert abs(values.mean() - 1.3832) < 0.02


def test_constants():
    t = gradhook.empty(2, 3)
    assert init.constant_(t, 3).tolist() == [[3] * 3] * 2
    assert init.ones_(t).tolist() == [[1] * 3] * 2
    assert init.zeros_(t).tolist() == [[0] * 3] * 2
    assert init.eye_(t).tolist() == [[1, 0, 0], [0, 1, 0]]
    kernel = init.dirac_(gradhook.empty(2, 2, 3))
    x = gradhook.randn(1, 2, 5)
    assert gradhook.allclose(nn.functional.conv1d(x, kernel, padding=1), x)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 2)])
def test_orthogonal_rows_or_columns(shape):
    q = init.orthogonal_(gradhook.empty(*shape, dtype=gradhook.float64), gain=2).cpu().numpy()
    q = q.reshape(shape[0], -1)
    gram = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)


def test_the_generator_decides():
    a = init.normal_(gradhook.empty(5), generator=gradhook.Generator().manual_seed(3))
    b = init.normal_(gradhook.empty(5), generator=gradhook.Generator().manual_seed(3))
    assert a.tolist() == b.tolist()
    gradhook.manual_seed(1)
    first = nn.Linear(3, 3).weight.tolist()
    gradhook.manual_seed(1)
    assert nn.Linear(3, 3).weight.tolist() == first


def test_a_fill_counts_as_a_write_in_place():
    t = gradhook.ones(2).requires_grad_()
    y = t * t
    init.zeros_(t)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gains_and_bad_arguments():
    assert init.calculate_gain("linear") == 1 and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    with pytest.raises(ValueError, match="Unsupported nonlinearity gell"):
        init.calculate_gain("gell")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_normal_(gradhook.empty(3))
    with pytest.raises(ValueError, match="Mode fan_mid not supported"):
        init.kaiming_normal_(gradhook.empty(3, 3), mode="fan_mid")
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_uniform_(gradhook.empty(0, 3))
