"""Single operations, forward and backward, of arrays beyond the caches: what kernels, memory and
threads decide. The weights of the result are drawn, so that no gradient is all ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench import others
from bench.step_rows import adam, drawn, labels
from bench.workload import Row, Work

SIDE = 1024  # a row's elements, and how many rows
CLASSES = 1000


def operation(name: str, shape: tuple[int, ...]) -> Callable[..., Work]:
    """A function of `functions` over normal numbers: forward, backward from drawn gradients."""

    def build(lib: Any, device: str = "cpu") -> Work:
        x = lib.tensor(drawn(shape, 1), requires_grad=True, device=device)
        by = lib.tensor(drawn(shape, 2), device=device)
        function = functions(lib, shape[-1], device)[name]

        def step() -> None:
            x.grad = None
            function(x).backward(by)

        return Work(step, lambda: [x.grad.cpu().numpy()])

    return build


def functions(lib: Any, n: int, device: str) -> dict[str, Callable[[Any], Any]]:
    """The operations, by name. n: the length of a row."""
    f = lib.nn.functional
    weight, bias = (
        lib.tensor(drawn((n,), seed), requires_grad=True, device=device) for seed in (3, 4)
    )
    return {
        "multiply": lambda x: x * x,
        "add": lambda x: x + x,
        "gelu": f.gelu,
        "gelu, tanh": lambda x: f.gelu(x, approximate="tanh"),
        "silu": f.silu,
        "softmax": lambda x: f.softmax(x, dim=-1),
        "layer_norm": lambda x: f.layer_norm(x, (n,), weight, bias),
    }


def cross_entropy(lib: Any, device: str = "cpu") -> Work:
    """4096 rows of scores of 1000 classes: loss, gradient."""
    x = lib.tensor(drawn((4096, CLASSES), 1), requires_grad=True, device=device)
    wanted = lib.from_numpy(labels(4096)).to(device)

    def step() -> None:
        x.grad = None
        lib.nn.functional.cross_entropy(x, wanted).backward()

    return Work(step, lambda: [x.grad.cpu().numpy()])


def adam_step(lib: Any, device: str = "cpu") -> Work:
    """A step of Adam alone, over the parameters of an MLP 784-1024-1024-10."""
    shapes = [(1024, 784), (1024,), (1024, 1024), (1024,), (10, 1024), (10,)]
    parameters = [
        lib.tensor(drawn(s, k), requires_grad=True, device=device) for k, s in enumerate(shapes)
    ]
    for k, parameter in enumerate(parameters):
        parameter.grad = lib.tensor(drawn(shapes[k], 20 + k), device=device)
    optimizer = adam(lib, parameters)
    return Work(optimizer.step, lambda: [p.detach().cpu().numpy() for p in parameters])


def copies(elements: int, count: int) -> Callable[..., Work]:
    """So many copies of such an array into memory that is there."""

    def build(xp: Any = np) -> Work:
        source, target = xp.ones(elements, np.float32), xp.zeros(elements, np.float32)

        def step() -> None:
            for _ in range(count):
                xp.copyto(target, source)

        return Work(step, list)

    return build


def _row(name: str, target: float | None, shape: tuple[int, ...], words: str) -> Row:
    size = int(np.prod(shape))
    return Row(
        f"{name}, {words}", target, operation(name, shape), copies(size, 2), only_products=True,
        others=others.contenders(name, shape),
    )  # fmt: skip


_MATRIX = (SIDE, SIDE)
KERNEL_ROWS = [
    *[
        _row(name, 1.00, (n,), f"{n:,} elements")
        for name in ("multiply", "add")
        for n in (10**4, 10**5, 10**6)
    ],
    *[
        _row(name, target, _MATRIX, "1024 x 1024")
        for name, target in (
            ("gelu", 0.70), ("gelu, tanh", 0.70), ("silu", None), ("softmax", 0.90),
            ("layer_norm", 1.00),
        )
    ],
    Row(
        "cross_entropy, 4096 x 1000", 0.60, cross_entropy, copies(4096 * CLASSES, 2),
        only_products=True,
    ),
    Row("Adam step, 1.9 M parameters", 0.90, adam_step, copies(1_900_000, 4), only_products=True),
]  # fmt: skip
