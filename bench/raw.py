"""The arithmetic of each row in plain NumPy or CuPy (xp), without any autograd; the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CHAIN, CHAIN_A, CHAIN_B = 1000, 1.0009765625, 0.0009765625
LAYERS, RATE = 50, 0.01
WIDE = 1 << 24  # 64 MB: more than the caches of a GPU hold
DEEP, DEEP_A = 100_000, 1.0
_F = np.float32


def chain_input() -> Array:
    return np.linspace(-1, 1, 8, dtype=_F)


def wide_input(length: int = WIDE) -> Array:
    return np.linspace(-2, 2, length, dtype=_F)


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


def on_host(arrays: list[Any]) -> list[Array]:
    """NumPy arrays of NumPy or CuPy ones."""
    return [a if isinstance(a, np.ndarray) else a.get() for a in arrays]


def chain(length: int = CHAIN, xp: Any = np) -> Any:
    """Forward and backward of the chain row."""
    from bench.rows import Work

    x = xp.asarray(chain_input())
    a, b = xp.full(8, CHAIN_A, _F), xp.full(8, CHAIN_B, _F)
    kept: list[Any] = []

    def step() -> None:
        y = x
        for _ in range(length):
            y = y * a + b
        y.sum()
        g = xp.ones(8, _F)
        for _ in range(length):
            g = g * a
        kept[:] = [g]

    return Work(step, lambda: on_host(kept))


def wide(length: int = WIDE, xp: Any = np) -> Any:
    """Forward and backward of tanh(x * a + b).sum()."""
    from bench.rows import Work

    x = xp.asarray(wide_input(length))
    a, b = xp.full(1, CHAIN_A, _F), xp.full(1, CHAIN_B, _F)
    kept: list[Any] = []

    def step() -> None:
        y = xp.tanh(x * a + b)
        y.sum()
        kept[:] = [(1 - y * y) * a]

    return Work(step, lambda: on_host(kept))


def copy(length: int, xp: Any = np) -> Any:
    """A copy of float32 elements into memory that is there: each is read once and written once."""
    from bench.rows import Work

    source, target = xp.ones(length, _F), xp.zeros(length, _F)
    return Work(lambda: xp.copyto(target, source), lambda: on_host([target]))


def mlp(xp: Any = np) -> Any:
    """Forward, softmax cross entropy, backward and SGD of the MLP row."""
    from bench.rows import Work

    images, labels = map(xp.asarray, mlp_batch())
    w1, b1, w2, b2, w3, b3 = parameters = [xp.asarray(p) for p in mlp_parameters()]
    rows, rate = xp.arange(32), xp.asarray(RATE, _F)

    def step() -> None:
        h1 = images @ w1.T + b1
        r1 = xp.maximum(h1, 0)
        h2 = r1 @ w2.T + b2
        r2 = xp.maximum(h2, 0)
        scores = r2 @ w3.T + b3
        shifted = scores - scores.max(axis=1, keepdims=True)
        exponentials = xp.exp(shifted)
        total = exponentials.sum(axis=1, keepdims=True)
        -(shifted[rows, labels] - xp.log(total[:, 0])).mean()
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

    return Work(step, lambda: on_host(parameters))


def layers(xp: Any = np) -> Any:
    """Forward and backward of the rows of 50 modules."""
    from bench.rows import Work

    x = xp.asarray(layer_input())
    parameters = [xp.asarray(p) for p in layer_parameters()]
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    kept: list[Any] = []

    def step() -> None:
        y, inputs = x, []
        for w, b in pairs:
            inputs.append(y)
            y = y @ w.T + b
        y.sum()
        g = xp.ones_like(y)
        gradients = []
        for (w, _), seen in zip(reversed(pairs), reversed(inputs), strict=True):
            gradients.append((g.T @ seen, g.sum(axis=0)))
            g = g @ w
        kept[:] = [g, gradients[-1][0]]

    return Work(step, lambda: on_host(kept))


def deep(length: int = DEEP, xp: Any = np) -> Any:
    """Forward and backward of the deep graph."""
    from bench.rows import Work

    x, a = xp.ones(1, _F), xp.full(1, DEEP_A, _F)
    kept: list[Any] = []

    def step() -> None:
        y = x
        for _ in range(length):
            y = y * a
        g = xp.ones(1, _F)
        for _ in range(length):
            g = g * a
        kept[:] = [g]

    return Work(step, lambda: on_host(kept))
