"""The training loop: Adam with a cosine learning rate, watched by a Monitor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import gradhook
from gradhook import Tensor, nn, optim
from gradhook.demo.data import Digits
from gradhook.demo.monitor import Monitor

BATCH_SIZE = 64
LEARNING_RATE = 3e-3


@dataclass
class Run:
    """What a training run left.

    losses: of each step; accuracies: on the test images after each epoch, 0 to 1; seconds: in all.
    """

    device: str
    seed: int
    epochs: int
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def accuracy(self) -> float:
        """On the test images, after the last epoch."""
        return self.accuracies[-1]


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of images whose highest score is at their label."""
    model.eval()
    with gradhook.no_grad():
        right = (model(images).argmax(dim=1) == labels).sum().item()
    model.train()
    return float(right) / len(labels)


def train(
    model: nn.Module, digits: Digits, monitor: Monitor, run: Run, progress: Callable[[Run], None]
) -> None:
    """Train for run.epochs and fill run. progress(run): called after each epoch."""
    rng = np.random.default_rng(run.seed)
    optimizer = optim.Adam(model.parameters(), lr=LEARNING_RATE)
    loss_function = nn.CrossEntropyLoss()
    start = time.perf_counter()
    for epoch in range(run.epochs):
        rate = LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * epoch / run.epochs))
        for group in optimizer.param_groups:
            group["lr"] = rate
        losses = []
        for images, labels in digits.batches(BATCH_SIZE, rng):
            loss = loss_function(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.end_step()
            losses.append(loss.detach())
        monitor.end_epoch()
        run.losses += gradhook.stack(losses).tolist()
        run.accuracies.append(accuracy(model, digits.test_images, digits.test_labels))
        run.seconds = time.perf_counter() - start
        progress(run)
