"""DP-SGD: every sample's gradient, the clip, the noise and epsilon are what they are said to be."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from example_scripts import FOLDER, example

import gradhook
from gradhook import nn
from gradhook.utils.data import TensorDataset

dp_sgd, sample_gradients = example("dp_sgd"), example("sample_gradients")


@pytest.fixture
def device():
    """Where tensors lie that name no device: on CUDA with --device cuda."""
    return gradhook.empty(0).device.type


def convolutions():
    return nn.Sequential(
        nn.Conv2d(2, 3, (3, 2), stride=2, padding=(1, 2)),
        nn.Tanh(),
        nn.Conv2d(3, 4, 2, dilation=2, bias=False),
        nn.Flatten(),
        nn.Linear(36, 5),
    )


def sequences():
    return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3, bias=False), nn.Flatten())


CASES = {"images": (convolutions, (2, 9, 6)), "sequences": (sequences, (7, 6)), "rows": (
    lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)), (6,)
)}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_gradients_of_samples_are_those_of_one_backward_each(case, device):
    make, shape = CASES[case]
    model = make().to(device).double()
    x = gradhook.randn(5, *shape, dtype=gradhook.float64, device=device)
    one_by_one = {p: [] for p in model.parameters()}
    for k in range(5):
        loss = model(x[k : k + 1]).square().sum()
        for p, g in zip(one_by_one, gradhook.autograd.grad(loss, list(one_by_one)), strict=True):
            one_by_one[p].append(g.cpu().numpy())
    samples = sample_gradients.SampleGradients(model)
    model(x).square().sum().backward()
    assert samples.gradients.keys() == one_by_one.keys() and not samples.inputs
    squares = np.zeros(5)
    for p, expected in one_by_one.items():
        found = samples.gradients[p].cpu().numpy()
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.sum(0), p.grad.cpu().numpy(), rtol=1e-10, atol=1e-12)
        squares += np.square(np.stack(expected)).reshape(5, -1).sum(1)
    np.testing.assert_allclose(samples.norms().cpu().numpy(), np.sqrt(squares), rtol=1e-10)


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, padding="same")],
    ids=["batch normalisation", "groups", "same"],
)
def test_a_layer_whose_samples_have_no_such_gradients_is_refused(layer):
    with pytest.raises(TypeError, match=r"found (BatchNorm2d|Conv2d)\(4, .*expected Linear, or"):
        sample_gradients.SampleGradients(nn.Sequential(nn.Linear(4, 4), layer))


def gradient_of(model, samples, x, noise=0.0):
    """All the parameters' gradients as one NumPy array, times the expected number of samples."""
    model(x).square().sum().backward()
    dp_sgd.private_gradients(samples, noise, 16.0)
    return 16 * np.concatenate([p.grad.cpu().numpy().ravel() for p in model.parameters()])


def test_no_sample_moves_the_sum_by_more_than_the_clip_and_short_ones_stay(device):
    model = CASES["rows"][0]().to(device).double()
    samples = sample_gradients.SampleGradients(model)
    x = gradhook.randn(8, 6, dtype=gradhook.float64, device=device)
    x = x * gradhook.tensor(10.0 ** np.arange(-4, 4), device=device).unsqueeze(1)
    whole = gradient_of(model, samples, x)
    moved = []
    for k in range(8):
        rest = gradhook.cat([x[:k], x[k + 1 :]])
        moved.append(np.linalg.norm(whole - gradient_of(model, samples, rest)))
    model(x).square().sum().backward()
    norms = samples.norms().cpu().numpy()
    assert (norms > 1.5).any() and (norms < 0.9).any()
    np.testing.assert_allclose(moved, np.minimum(norms, dp_sgd.CLIP), rtol=1e-9)


@pytest.mark.parametrize("noise", [0.5, 4.0])
def test_the_noise_has_its_deviation_in_every_parameter_and_is_new_each_time(noise, device):
    model = nn.Sequential(nn.Linear(60, 50), nn.Tanh(), nn.Linear(50, 40)).to(device)
    samples = sample_gradients.SampleGradients(model)
    x = gradhook.randn(4, 60, device=device)
    silent = gradient_of(model, samples, x)
    first, second = (gradient_of(model, samples, x, noise) - silent for _ in range(2))
    for part in (first[:3000], first[3050:5050], first - second):  # two weights
        deviation = noise * dp_sgd.CLIP * (math.sqrt(2) if len(part) == len(first) else 1.0)
        bound = 5 * deviation / math.sqrt(len(part))  # of 5 standard errors
        assert abs(part.mean()) < bound and abs(part.std() - deviation) < bound


def test_a_divergence_is_that_of_the_mixture_of_normal_distributions():
    """E over z ~ N(0, s^2) of (1 - q + q exp((2 z - 1) / (2 s^2)))^a, by quadrature."""
    integrate = pytest.importorskip("scipy.integrate")
    for q, s, a in [(0.1, 1.5, 2), (0.1, 1.5, 9), (0.01, 4.0, 32), (0.5, 0.8, 5), (0.9, 3.0, 20)]:

        def density(z, q=q, s=s, a=a):
            ratio = a * np.log1p(q * np.expm1((2 * z - 1) / (2 * s * s)))
            return np.exp(ratio - z * z / (2 * s * s)) / (s * math.sqrt(2 * math.pi))

        moment, _ = integrate.quad(density, -40 * s, 40 * s + a, limit=1000, epsabs=0)
        expected = math.log(moment) / (a - 1)
        assert dp_sgd.divergence(q, s, a) == pytest.approx(expected, rel=1e-6)


def test_the_published_epsilon_of_the_moments_accountant_is_found():
    """1.26, for q = 0.01, noise 4, delta 1e-5 and 10,000 steps: Abadi et al., section 5 (figure 2),
    who turn moments of order up to 32 into epsilon by their theorem 2, which gives more.
    """
    theirs = min(
        10_000 * dp_sgd.divergence(0.01, 4.0, a) - math.log(1e-5) / (a - 1) for a in range(2, 34)
    )
    assert theirs == pytest.approx(1.26, abs=0.005)
    assert dp_sgd.epsilon(0.01, 4.0, 10_000, 1e-5) < theirs


def exact_epsilon(q, s, steps, delta):
    """By the distribution of the privacy loss on a grid, `steps` of them added up by FFT.

    Source: A. Koskela, J. Jaelkoe and A. Honkela, arXiv:1906.03049.
    """
    reach, n = 60.0, 1 << 18
    losses = (np.arange(n) - n // 2) * (2 * reach / n)
    z = np.linspace(-12 * s, 12 * s + 1, 2_000_001)
    there = (1 - q) * np.exp(-z * z / (2 * s * s)) + q * np.exp(-((z - 1) ** 2) / (2 * s * s))
    loss = np.log1p(q * np.expm1((2 * z - 1) / (2 * s * s)))  # log of with / without
    cells = np.rint(loss / (2 * reach / n)).astype(int) + n // 2
    one = np.bincount(cells, there, n) / there.sum()
    total = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(one)) ** steps, n)
    total = np.fft.fftshift(total)

    def excess(epsilon):  # the delta of this epsilon
        over = losses > epsilon
        return (total[over] * -np.expm1(epsilon - losses[over])).sum()

    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize("noise, steps", [(1.5, 200), (3.0, 200), (6.0, 50)])
def test_epsilon_is_never_under_the_exact_one_and_at_most_a_fifth_over_it(noise, steps):
    exact = exact_epsilon(dp_sgd.RATE, noise, steps, dp_sgd.DELTA)
    assert exact <= dp_sgd.epsilon(dp_sgd.RATE, noise, steps) <= 1.2 * exact
    assert dp_sgd.epsilon(dp_sgd.RATE, 0.0, steps) == math.inf


def test_poisson_batches_take_each_sample_by_itself_at_the_rate():
    batches = [set(b) for b in dp_sgd.PoissonBatches(500, 0.1, 400, seed=0)]
    taken = np.array([[k in batch for k in range(500)] for batch in batches])
    assert abs(taken.mean() - 0.1) < 5 * math.sqrt(0.09 / taken.size)
    sizes = taken.sum(1)  # binomial, not fixed
    assert abs(sizes.std() - math.sqrt(45)) < 1 and len(batches) == 400
    assert abs(np.corrcoef(taken[:, 0], taken[:, 1])[0, 1]) < 0.2


def test_no_step_waits_for_the_device(device, device_counters):
    drawn = np.random.default_rng(0)
    images = gradhook.from_numpy(drawn.normal(size=(300, 1, 8, 8)).astype("f4"))
    labels = gradhook.from_numpy(drawn.integers(0, 10, 300))
    model, counts = dp_sgd.network().to(device), []
    list(dp_sgd.train(model, TensorDataset(images, labels), 1.5, 1))  # compiles
    for steps in (1, 3):
        device_counters(reset=True)
        list(dp_sgd.train(dp_sgd.network().to(device), TensorDataset(images, labels), 1.5, steps))
        counts.append(device_counters())
    assert counts[0]["d2h"] == counts[1]["d2h"] and counts[0]["syncs"] == counts[1]["syncs"]
    assert counts[0]["launches"] < counts[1]["launches"]


@pytest.mark.cpu_only(reason="200 steps are 20,000 launches")
def test_it_learns_the_digits_with_an_epsilon_under_five():
    pytest.importorskip("sklearn", reason="the digits need scikit-learn: gradhook[demo]")
    curve = dp_sgd.learn(1.5, dp_sgd.STEPS, "cpu")
    assert dp_sgd.epsilon(dp_sgd.RATE, 1.5, curve[-1][0]) < 5
    assert curve[-1][1] > 0.9 and curve[0][1] < 0.6


@pytest.mark.cpu_only(reason="the same with more launches")
def test_the_script_runs_and_draws(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="the digits need scikit-learn: gradhook[demo]")
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: gradhook[demo]")
    picture = tmp_path / "picture.png"
    assert dp_sgd.main(["--steps", "20", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG") and printed.count("on cpu") == 4
    assert (FOLDER / "dp_sgd.png").stat().st_size < 60_000
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # without --output it isn't needed
    assert dp_sgd.main(["--steps", "2"]) == 0
