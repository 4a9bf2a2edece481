"""The training steps whose kernels and host time are counted: the same text for gradhook and
PyTorch, with one element a tensor too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

Step = Callable[[], object]
RATE = 1e-3


def mlp(lib: Any, device: str, sizes: tuple[int, ...] = (64, 128, 128, 10), rows: int = 32) -> Step:
    """64-128-128-10, batch 32: forward, cross entropy, backward, Adam, zero_grad."""
    nn = lib.nn
    first, second, third, classes = sizes
    model = nn.Sequential(
        nn.Linear(first, second), nn.ReLU(), nn.Linear(second, third), nn.ReLU(),
        nn.Linear(third, classes),
    ).to(device)  # fmt: skip
    images = lib.randn(rows, first, device=device)
    labels = lib.arange(rows, device=device) % classes
    return _step(lib, model, lambda: nn.functional.cross_entropy(model(images), labels))


def transformer(
    lib: Any, device: str, width: int = 32, heads: int = 4, batch: int = 2, length: int = 8
) -> Step:
    """A pre-norm block, width 32, 4 heads, batch 2 x 8: forward, cross entropy of each token,
    backward, Adam, zero_grad.
    """
    model = _block(lib, width, heads).to(device)
    x = lib.randn(batch, length, width, device=device)
    labels = lib.arange(batch * length, device=device) % width
    cross_entropy = lib.nn.functional.cross_entropy
    return _step(lib, model, lambda: cross_entropy(model(x).reshape(-1, width), labels))


STEPS = {
    "MLP 64-128-128-10, cross entropy, Adam": mlp,
    "transformer block, cross entropy, Adam": transformer,
}
ONE_ELEMENT = {
    "MLP of three layers, cross entropy, Adam": partial(mlp, sizes=(1, 1, 1, 1), rows=1),
    "transformer block, cross entropy, Adam": partial(
        transformer, width=1, heads=1, batch=1, length=1
    ),
}


def _step(lib: Any, model: Any, loss_of: Callable[[], Any]) -> Step:
    optimizer = lib.optim.Adam(model.parameters(), lr=RATE, foreach=True)

    def step() -> None:
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _block(lib: Any, width: int, heads: int) -> Any:
    nn, softmax = lib.nn, lib.nn.functional.softmax

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        """x + attention(norm(x)), then x + feed_forward(norm(x)); attention from plain ops."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def attention(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.project(x).reshape(batch, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
            mixed = softmax(scores, dim=-1) @ v
            return self.merge(mixed.transpose(1, 2).reshape(batch, length, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x))
            return x + self.feed(self.second(x))

    return Block()
