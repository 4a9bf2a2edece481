"""The arithmetic of each row in plain NumPy, without any autograd, and the inputs all share."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CHAIN, CHAIN_A, CHAIN_B = 1000, 1.0009765625, 0.0009765625
LAYERS, RATE = 50, 0.01
DEEP, DEEP_A = 100_000, 1.0
_F = np.float32


def chain_input() -> Array:
    return np.linspace(-1, 1, 8, dtype=_F)


def mlp_batch() -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(32, 64)).astype(_F), rng.integers(0, 10, 32)


def mlp_parameters() -> list[Array]:
    rng = np.random.default_rng(2)
    shapes = [(128, 64), (128,), (128, 128), (128,), (10, 128), (10,)]
    return [rng.normal(scale=0.1, size=shape).astype(_F) for shape in shapes]


def layer_input() -> Array:
    return np.random.default_rng(3).normal(size=(4, 8)).astype(_F)


def layer_parameters() -> list[Array]:
    rng = np.random.default_rng(4)
    shapes = [(8, 8), (8,)] * LAYERS
    return [rng.normal(scale=0.3, size=shape).astype(_F) for shape in shapes]


def chain(length: int = CHAIN) -> Any:
    """Forward and backward of the chain row."""
    from bench.rows import Work

    x, a, b = chain_input(), np.full(8, CHAIN_A, _F), np.full(8, CHAIN_B, _F)
    kept: list[Array] = []

    def step() -> None:
        y = x
        for _ in range(length):
            y = y * a + b
        y.sum()
        g = np.ones(8, _F)
        for _ in range(length):
            g = g * a
        kept[:] = [g]

    return Work(step, lambda: kept)


def mlp() -> Any:
    """Forward, softmax cross entropy, backward and SGD of the MLP row."""
    from bench.rows import Work

    images, labels = mlp_batch()
    w1, b1, w2, b2, w3, b3 = parameters = mlp_parameters()
    rows, rate = np.arange(32), np.array(RATE, _F)

    def step() -> None:
        h1 = images @ w1.T + b1
        r1 = np.maximum(h1, 0)
        h2 = r1 @ w2.T + b2
        r2 = np.maximum(h2, 0)
        scores = r2 @ w3.T + b3
        shifted = scores - scores.max(axis=1, keepdims=True)
        exponentials = np.exp(shifted)
        total = exponentials.sum(axis=1, keepdims=True)
        -(shifted[rows, labels] - np.log(total[:, 0])).mean()
        g = exponentials / total
        g[rows, labels] -= 1
        g /= 32
        gw3, gb3 = g.T @ r2, g.sum(axis=0)
        g = (g @ w3) * (h2 > 0)
        gw2, gb2 = g.T @ r1, g.sum(axis=0)
        g = (g @ w2) * (h1 > 0)
        gw1, gb1 = g.T @ images, g.sum(axis=0)
        for p, gradient in zip(parameters, (gw1, gb1, gw2, gb2, gw3, gb3), strict=True):
            p -= rate * gradient

    return Work(step, lambda: list(parameters))


def layers() -> Any:
    """Forward and backward of the rows of 50 modules."""
    from bench.rows import Work

    x = layer_input()
    parameters = layer_parameters()
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    kept: list[Array] = []

    def step() -> None:
        y, inputs = x, []
        for w, b in pairs:
            inputs.append(y)
            y = y @ w.T + b
        y.sum()
        g = np.ones_like(y)
        gradients = []
        for (w, _), seen in zip(reversed(pairs), reversed(inputs), strict=True):
            gradients.append((g.T @ seen, g.sum(axis=0)))
            g = g @ w
        kept[:] = [g, gradients[-1][0]]

    return Work(step, lambda: kept)


def deep(length: int = DEEP) -> Any:
    """Forward and backward of the deep graph."""
    from bench.rows import Work

    x, a = np.ones(1, _F), np.full(1, DEEP_A, _F)
    kept: list[Array] = []

    def step() -> None:
        y = x
        for _ in range(length):
            y = y * a
        g = np.ones(1, _F)
        for _ in range(length):
            g = g * a
        kept[:] = [g]

    return Work(step, lambda: kept)
