"""Training steps of the sizes people run on a CPU: the models, and their matrix products alone.

As in rows.py the text of a workload is the same for gradhook and PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.workload import Row, Work, set_parameters

Array = np.ndarray[Any, Any]
_F = np.float32
_RATE = 1e-5  # small: no round meets other numbers (saturated, denormal) than the first


def drawn(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Array:
    """Normal float32 numbers, the same for every library."""
    return np.random.default_rng(seed).normal(scale=scale, size=shape).astype(_F)


def labels(count: int) -> Array:
    return np.random.default_rng(5).integers(0, 10, count)


def training(
    model_of: Callable[[Any], Any],
    inputs: Callable[[], tuple[Array, ...]],
    loss_of: Callable[..., Any],
    optimizer_of: Callable[[Any, Any], Any],
) -> Callable[..., Work]:
    """Forward, loss, backward, optimizer's step, zero_grad of a model with drawn parameters.

    model_of(lib), loss_of(lib, model, *inputs), optimizer_of(lib, parameters). The values are the
    last step's loss and the parameters' gradients.
    """

    def build(lib: Any, device: str = "cpu") -> Work:
        model = model_of(lib)
        shapes = [tuple(p.shape) for p in model.parameters()]
        parts = [drawn(s, 10 + k, s[-1] ** -0.5 * 0.7) for k, s in enumerate(shapes)]
        set_parameters(lib, model, parts)
        model.to(device)
        given = [lib.from_numpy(a).to(device) for a in inputs()]
        optimizer = optimizer_of(lib, model.parameters())
        kept: list[Any] = []

        def step() -> None:
            loss = loss_of(lib, model, *given)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept[:] = [loss]

        def values() -> list[Array]:
            grads = [p.grad.cpu().numpy() for p in model.parameters()]
            return [kept[0].detach().cpu().numpy(), *grads]

        return Work(step, values)

    return build


def adam(lib: Any, parameters: Any) -> Any:
    return lib.optim.Adam(parameters, lr=_RATE)


def adamw(lib: Any, parameters: Any) -> Any:
    return lib.optim.AdamW(parameters, lr=_RATE)


def classified(lib: Any, model: Any, x: Any, wanted: Any) -> Any:
    return lib.nn.functional.cross_entropy(model(x), wanted)


# ---- the models


def wide_mlp(lib: Any) -> Any:
    """784-1024-1024-10 with relu."""
    nn = lib.nn
    return nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )


def small_cnn(lib: Any) -> Any:
    """Two padded 3x3 convolutions over 28x28, to 8 and 16 channels, each pooled by 2, a Linear."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 7 * 7, 10),
    )  # fmt: skip


def cnn(lib: Any) -> Any:
    """Two 3x3 convolutions over 28x28, to 32 and 64 channels, a pooling by 2, a Linear."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 12 * 12, 10),
    )  # fmt: skip


def transformer(lib: Any) -> Any:
    """TransformerEncoderLayer of width 256 with 4 heads, 1024 wide inside, gelu, no dropout."""
    return lib.nn.TransformerEncoderLayer(
        256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True
    )


def lstm(lib: Any) -> Any:
    return lib.nn.LSTM(64, 128)


def weighed(lib: Any, model: Any, x: Any, weights: Any) -> Any:
    """The mean of the outputs by drawn weights, which no normalisation cancels."""
    found = model(x)
    return ((found[0] if isinstance(found, tuple) else found) * weights).mean()


# ---- their products


def products(*shapes: tuple[int, ...]) -> Callable[..., Work]:
    """The matrix products of a step, (batch..., n, k, m) each, into memory that is there.

    A step with only these and nothing else would be as fast as NumPy's BLAS is.
    """

    def build(xp: Any = np) -> Work:
        made = {}
        for *lead, n, k, m in shapes:  # of one shape: one memory
            a, b = xp.ones((*lead, n, k), _F), xp.ones((*lead, k, m), _F)
            made[*lead, n, k, m] = (a, b, xp.zeros((*lead, n, m), _F))
        work = [made[shape] for shape in shapes]

        def step() -> None:
            for a, b, out in work:
                xp.matmul(a, b, out=out)

        return Work(step, list)

    return build


def affine(rows: int, inside: int, outside: int, with_input: bool = True) -> list[tuple[int, ...]]:
    """The products of a Linear: forward, the weight's gradient, and the input's."""
    found = [(rows, inside, outside), (outside, rows, inside)]
    return [*found, (rows, outside, inside)] if with_input else found


_MLP = [*affine(64, 784, 1024, False), *affine(64, 1024, 1024), *affine(64, 1024, 10)]
_CNN = [
    *affine(32 * 676, 9, 32, False), *affine(32 * 576, 288, 64), *affine(32, 9216, 10),
]  # fmt: skip
_SMALL_CNN = [
    *affine(32 * 784, 9, 8, False), *affine(32 * 196, 72, 16), *affine(32, 784, 10),
]  # fmt: skip
_ROWS = 8 * 128
_BLOCK = [
    *affine(_ROWS, 256, 768), *affine(_ROWS, 256, 256), *affine(_ROWS, 256, 1024),
    *affine(_ROWS, 1024, 256), *[(32, 128, 64, 128)] * 3, *[(32, 128, 128, 64)] * 3,
]  # fmt: skip
_LSTM = [
    *affine(700, 64, 512, False), *[(20, 128, 512)] * 35, *[(20, 512, 128)] * 34,
    (512, 680, 128),
]  # fmt: skip

STEP_ROWS = [
    Row(
        "MLP 784-1024-1024-10 step, batch 64, Adam",
        0.75,
        training(wide_mlp, lambda: (drawn((64, 784), 1), labels(64)), classified, adam),
        products(*_MLP),
        only_products=True,
    ),
    Row(
        "CNN 28x28, conv 8, conv 16 step, batch 32",
        0.95,
        training(small_cnn, lambda: (drawn((32, 1, 28, 28), 1), labels(32)), classified, adam),
        products(*_SMALL_CNN),
        only_products=True,
    ),
    Row(
        "CNN 28x28, conv 32, conv 64 step, batch 32",
        0.95,
        training(cnn, lambda: (drawn((32, 1, 28, 28), 1), labels(32)), classified, adam),
        products(*_CNN),
        rounds=15,
        only_products=True,
    ),
    Row(
        "transformer block 256, 4 heads, 8 x 128, AdamW",
        0.90,
        training(
            transformer,
            lambda: (drawn((8, 128, 256), 1), drawn((8, 128, 256), 2)),
            weighed,
            adamw,
        ),
        products(*_BLOCK),
        rounds=15,
        only_products=True,
    ),
    Row(
        "LSTM 64-128 step, 35 x 20, Adam",
        1.00,
        training(lstm, lambda: (drawn((35, 20, 64), 1), drawn((35, 20, 128), 2)), weighed, adam),
        products(*_LSTM),
        only_products=True,
    ),
]
