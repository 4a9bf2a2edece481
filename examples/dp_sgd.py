"""Training that keeps a secret: DP-SGD, with every sample's own gradient by two module hooks.

Hooks give each sample's gradient in one backward (sample_gradients.py). Each is shortened to a
length of at most CLIP, their sum gets noise, and the network learns the digits while no single
image changes it much (M. Abadi et al., arXiv:1607.00133). How much is epsilon: for any set of
outcomes, P(with the image) <= e^epsilon P(without it) + delta. Batches are Poisson samples, and
epsilon is that of the sampled Gaussian mechanism (I. Mironov, K. Talwar and L. Zhang,
arXiv:1908.10530).

    pip install '.[demo]'
    python examples/dp_sgd.py --output dp_sgd.png          # on CUDA: --device cuda
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import digits_cnn
import numpy as np
from pictures import save_png
from sample_gradients import SampleGradients

import gradhook as gh
from gradhook import nn
from gradhook.utils.data import DataLoader, Sampler

CLIP, DELTA = 1.0, 1e-4  # length of a gradient; the probability that epsilon does not hold
RATE, STEPS = 0.1, 200  # the share of the images that a batch has on average; batches


class PoissonBatches(Sampler[list[int]]):
    """Batches in which each of n samples is with probability `rate`, whatever the others do.

    With n * rate of 40 or more there is no empty one.
    """

    def __init__(self, n: int, rate: float, steps: int, seed: int) -> None:
        self.n, self.rate, self.steps, self.seed = n, rate, steps, seed

    def __iter__(self) -> Iterator[list[int]]:
        drawn = np.random.default_rng(self.seed)
        for _ in range(self.steps):
            yield np.flatnonzero(drawn.random(self.n) < self.rate).tolist()


def private_gradients(samples: SampleGradients, noise: float, expected: float) -> None:
    """Fill `.grad`: the sum of the samples' gradients, each of a length of at most CLIP, and normal
    noise of deviation noise * CLIP, over the number of samples in a batch that is `expected`.
    """
    shrink = (CLIP / samples.norms()).clamp(max=1.0)
    for parameter, gradient in samples.gradients.items():
        total = gh.einsum("n,n...->...", shrink, gradient)
        total += noise * CLIP * gh.randn_like(total)
        parameter.grad = total / expected
    samples.gradients.clear()


def divergence(rate: float, noise: float, order: int) -> float:
    """Renyi divergence, in nats, of a batch with and without one image; order: whole, from 2 on.

    Source: arXiv:1908.10530, section 3.3: log(sum over k of C(order, k) (1 - rate)^(order - k)
    rate^k exp((k^2 - k) / (2 noise^2))) / (order - 1). rate: over 0 and under 1.
    """
    k = np.arange(order + 1)
    choices = [math.lgamma(order + 1) - math.lgamma(i + 1) - math.lgamma(order - i + 1) for i in k]
    terms = choices + (order - k) * math.log1p(-rate) + k * math.log(rate)
    return float(np.logaddexp.reduce(terms + (k * k - k) / (2 * noise**2))) / (order - 1)


def epsilon(rate: float, noise: float, steps: int, delta: float = DELTA) -> float:
    """What `steps` batches give away at most about one image, which is there or not.

    The divergences of batches add up; the best order gives epsilon (C. Canonne, G. Kamath and
    T. Steinke, arXiv:2004.00010, proposition 12). Without noise it is infinite.
    """
    if noise == 0:
        return math.inf
    found = math.inf
    for order in range(2, 257):
        rest = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        found = min(found, steps * divergence(rate, noise, order) + rest)
    return max(found, 0.0)


def network() -> nn.Module:
    """Images (n, 1, 8, 8) to scores (n, 10). No layer mixes samples."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )


def train(
    model: nn.Module, data: Any, noise: float, steps: int = STEPS, seed: int = 0
) -> Iterator[int]:
    """Train the model where it lies, and give the number of steps after each."""
    device = next(model.parameters()).device
    samples = SampleGradients(model)
    optimizer = gh.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    loss_function = nn.CrossEntropyLoss(reduction="sum")
    drawn = PoissonBatches(len(data), RATE, steps, seed)
    batches = DataLoader(data, batch_sampler=drawn, device=device)
    for step, (images, labels) in enumerate(batches, 1):
        loss_function(model(images), labels).backward()
        private_gradients(samples, noise, RATE * len(data))
        optimizer.step()
        yield step


def learn(noise: float, steps: int, device: str) -> list[tuple[int, float]]:
    """A new network learns. Result: steps and the accuracy of the test after every tenth step."""
    gh.manual_seed(0)
    training, test = digits_cnn.load()
    model = network().to(device)
    found = []
    for step in train(model, training, noise, steps):
        if step % 10 == 0 or step == steps:
            _, labels, probable = digits_cnn.probabilities(model, test)
            found.append((step, float((probable.argmax(1) == labels).mean())))
    return found


def draw(path: Path, curves: dict[float, list[tuple[int, float]]]) -> None:
    """Write the picture as PNG: what is learnt, and what is given away."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), dpi=100, facecolor="white", layout="constrained")
    learnt, given = figure.subplots(1, 2)
    colours = ("#22252A", "#D55E00", "#0072B2", "#009E73")
    for (noise, curve), colour in zip(sorted(curves.items()), colours, strict=False):
        steps, accuracies = zip(*curve, strict=True)
        name = f"noise {noise:g}" if noise else "no noise, no privacy"
        learnt.plot(steps, accuracies, color=colour, linewidth=1.6, label=name)
        spent = [epsilon(RATE, noise, step) for step in steps]
        given.plot(spent, accuracies, color=colour, linewidth=1.6)
    learnt.set_xlabel("batches", fontsize=9)
    learnt.legend(frameon=False, fontsize=8.5, loc="lower right")
    given.set_xlabel(f"epsilon, at delta = {DELTA:g}", fontsize=9)
    for axes, title in ((learnt, "test accuracy"), (given, "test accuracy for what is given away")):
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axes.set_ylim(0, 1)
        axes.grid(color="#E6E8EB", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    save_png(figure, path)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="digits, learnt with differential privacy")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--noise", type=float, default=1.5, help="deviation, in units of the clip")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--output", type=Path, help="draw it beside others (needs matplotlib)")
    options = parser.parse_args(arguments)
    curves = {}
    for noise in (options.noise, *((0.0, 3.0, 6.0) if options.output else ())):
        start = time.perf_counter()
        curves[noise] = learn(noise, options.steps, options.device)
        print(
            f"noise {noise:g}: test accuracy {curves[noise][-1][1]:.3f}, epsilon "
            f"{epsilon(RATE, noise, options.steps):.2f} at delta {DELTA:g}, "
            f"{time.perf_counter() - start:.1f} s on {options.device}"
        )
    if options.output:
        draw(options.output, curves)
        print(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
