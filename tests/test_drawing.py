"""Draws with parameters: moments, reproducibility, gradients of zero, errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook

N = 20_000


def source() -> gradhook.Generator:
    return gradhook.Generator().manual_seed(3)


def host(t: gradhook.Tensor) -> np.ndarray:
    return t.detach().cpu().numpy().astype("f8")


@pytest.mark.parametrize(
    ("fill", "median", "mean"),
    [
        (lambda t, g: t.uniform_(-1, 3, generator=g), 1.0, 1.0),
        (lambda t, g: t.uniform_(generator=g, **{"from": 2, "to": 4}), 3.0, 3.0),
        (lambda t, g: t.normal_(2, 0.5, generator=g), 2.0, 2.0),
        (lambda t, g: t.log_normal_(0, 0.25, generator=g), 1.0, np.exp(0.25**2 / 2)),
        (lambda t, g: t.exponential_(2, generator=g), np.log(2) / 2, 0.5),
        (lambda t, g: t.cauchy_(1, 2, generator=g), 1.0, None),
        (lambda t, g: t.geometric_(0.25, generator=g), 3.0, 4.0),
        (lambda t, g: t.bernoulli_(0.7, generator=g), 1.0, 0.7),
        (lambda t, g: t.random_(2, 5, generator=g), 3.0, 3.0),
    ],
)
@pytest.mark.parametrize("dtype", [gradhook.float32, gradhook.float64, gradhook.float16])
def test_a_tensor_is_filled_with_numbers_of_its_distribution(fill, median, mean, dtype):
    t = gradhook.zeros(N, dtype=dtype)
    assert fill(t, source()) is t and t.dtype == dtype
    found = host(t)
    assert np.median(found) == pytest.approx(median, abs=0.06)
    assert mean is None or found.mean() == pytest.approx(mean, abs=0.06)
    again = fill(gradhook.zeros(N, dtype=dtype), source())
    np.testing.assert_array_equal(host(again), found)


def test_exponential_numbers_are_positive_and_finite():
    t = gradhook.zeros(N).exponential_(generator=source())
    assert bool((t > 0).all()) and bool(gradhook.isfinite(t).all())


def test_random_without_limits_takes_what_the_dtype_holds():
    assert int(gradhook.zeros(N, dtype=gradhook.int8).random_().max()) == 127
    assert int(gradhook.zeros(N, dtype=gradhook.uint8).random_().max()) == 255
    assert gradhook.zeros(N, dtype=gradhook.bool).random_().float().mean().item() < 0.6
    assert gradhook.zeros(N, dtype=gradhook.int64).random_(7).max().item() == 6


def test_normal_broadcasts_mean_and_std_and_takes_the_dtype_of_the_mean():
    mean = gradhook.tensor([[0.0], [5.0]], dtype=gradhook.float64)
    drawn = gradhook.normal(mean.expand(2, N), gradhook.full((N,), 2.0), generator=source())
    assert drawn.shape == (2, N) and drawn.dtype == gradhook.float64
    np.testing.assert_allclose(host(drawn).mean(1), [0, 5], atol=0.05)
    np.testing.assert_allclose(host(drawn).std(1), [2, 2], atol=0.05)
    assert gradhook.normal(0.0, 1.0, (2, 3)).shape == (2, 3)
    assert gradhook.normal(1.0, gradhook.ones(3, dtype=gradhook.float64)).dtype == gradhook.float64


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: gradhook.normal(x, 1.0),
        lambda x: gradhook.normal(0.0, x),
        gradhook.bernoulli,
        gradhook.poisson,
        lambda x: x.clone().uniform_(),
    ],
)
def test_what_a_draw_comes_from_gets_a_gradient_of_zeros(draw):
    x = gradhook.full((2, 3), 0.5, requires_grad=True)
    draw(x).sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2


def test_bernoulli_draws_with_the_probability_of_each_element():
    p = gradhook.tensor([[0.0], [0.25], [1.0]]).expand(3, N)
    np.testing.assert_allclose(
        host(gradhook.bernoulli(p, generator=source())).mean(1), [0, 0.25, 1], atol=0.02
    )
    filled = gradhook.zeros(3, 4, dtype=gradhook.int64).bernoulli_(
        gradhook.tensor([0.0, 1.0, 0.0, 1.0])
    )
    assert filled.tolist() == [[0, 1, 0, 1]] * 3


def test_poisson_counts_have_their_rates():
    rates = gradhook.tensor([[0.0], [3.0]]).expand(2, N)
    drawn = host(gradhook.poisson(rates, generator=source()))
    np.testing.assert_allclose(drawn.mean(1), [0, 3], atol=0.06)
    np.testing.assert_allclose(drawn.var(1), [0, 3], atol=0.15)


def test_multinomial_draws_by_weight_and_never_what_has_none():
    weights = gradhook.tensor([0.0, 1.0, 3.0, 0.0])
    drawn = gradhook.multinomial(weights, N, replacement=True, generator=source())
    assert drawn.dtype == gradhook.int64
    counts = np.bincount(host(drawn).astype(int), minlength=4) / N
    np.testing.assert_allclose(counts, [0, 0.25, 0.75, 0], atol=0.02)
    firsts = gradhook.multinomial(weights.expand(N, 4), 2, generator=source())
    assert np.sort(host(firsts), 1).tolist() == [[1, 2]] * N
    assert host(firsts)[:, 0].mean() == pytest.approx(1.75, abs=0.02)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x.uniform_(2, 1), RuntimeError, "from=2 > to=1"),
        (lambda x: x.uniform_(start=2), TypeError, "'start'"),
        (lambda x: x.normal_(0, -1), RuntimeError, "found std -1"),
        (lambda x: x.log_normal_(0, 0), RuntimeError, "found std=0"),
        (lambda x: x.exponential_(0), RuntimeError, "found lambda=0"),
        (lambda x: x.cauchy_(0, 0), RuntimeError, "found sigma=0"),
        (lambda x: x.geometric_(1), RuntimeError, "p=1"),
        (lambda x: x.bernoulli_(1.5), RuntimeError, "p=1.5"),
        (lambda x: x.random_(5, 2), RuntimeError, "from=5 >= to=2"),
        (lambda x: x.long().uniform_(), NotImplementedError, "'Long'"),
        (lambda x: x.long().exponential_(), RuntimeError, "continuous .* Long"),
        (lambda x: gradhook.bernoulli(x.long()), NotImplementedError, "'Long'"),
        (lambda x: gradhook.normal(0, 1), TypeError, "size"),
        (lambda x: gradhook.normal(x, gradhook.ones(4)), RuntimeError, "size of tensor a"),
        (lambda x: gradhook.multinomial(x, 4), RuntimeError, "4 of 3"),
        (lambda x: gradhook.multinomial(x, 0), RuntimeError, "n_sample <= 0"),
        (lambda x: gradhook.multinomial(x[None], 1), RuntimeError, "1 or 2 dim, found 3"),
        (lambda x: gradhook.multinomial(x.long(), 1), RuntimeError, "Long"),
    ],
)
def test_a_wrong_call_names_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call(gradhook.ones(2, 3))


@pytest.mark.cpu_only(reason="values on a device are not looked at")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: gradhook.bernoulli(x + 1), r"every probability in \[0, 1\]"),
        (lambda x: gradhook.normal(x, -x), "all elements of std"),
        (lambda x: gradhook.multinomial(-x, 1), "element < 0"),
        (lambda x: gradhook.multinomial(x * 0, 1, True), "sum of probabilities <= 0"),
        (lambda x: gradhook.poisson(-x), "invalid Poisson rate"),
    ],
)
def test_values_that_no_distribution_has_are_refused_on_the_cpu(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(gradhook.ones(2, 3))
