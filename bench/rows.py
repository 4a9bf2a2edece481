"""The rows of the table: what is done, by gradhook, by PyTorch and by raw NumPy.

The text of a workload is the same for gradhook and PyTorch: it gets the library as `lib`, and the
device ("cpu", "cuda") to work on; raw arithmetic gets the array module as `xp`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bench import raw
from bench.environment import threads
from bench.kernel_rows import KERNEL_ROWS
from bench.step_rows import STEP_ROWS
from bench.workload import Row, Work, set_parameters

Array = np.ndarray[Any, Any]


def library(name: str) -> Any:
    """gradhook or torch with its nn and optim; None for torch where it is not installed."""
    try:
        lib = importlib.import_module(name)
    except ModuleNotFoundError:
        if name == "gradhook":
            raise
        return None
    for part in ("nn", "nn.functional", "optim"):
        importlib.import_module(f"{name}.{part}")
    lib.set_num_threads(threads())
    return lib


def contenders(row: Row, device: str = "cpu") -> dict[str, Callable[[], object]]:
    """What takes turns: gradhook, torch where it is installed and sees the device, the floors.

    "raw" is the row's arithmetic without autograd, "copy" a copy of an array of the row's size.
    """
    torch = library("torch")
    xp: Any = np
    if device != "cpu":
        xp = importlib.import_module("gradhook.backend").cupy()
        torch = torch if torch is not None and torch.cuda.is_available() else None
    steps = {"gradhook": row.build(library("gradhook"), device).step}
    if torch is not None:
        steps["torch"] = row.build(torch, device).step
    for name, make in row.others.items() if device == "cpu" else ():
        step = make()
        if step is not None:
            steps[name] = step
    steps["raw"] = row.raw(xp=xp).step
    if row.copied:
        steps["copy"] = raw.copy(row.copied, xp).step
    return steps


def chain(scalars: bool, length: int = raw.CHAIN) -> Callable[..., Work]:
    """y = y * a + b, `length` times, on 8 float32 elements; backward from the sum."""

    def build(lib: Any, device: str = "cpu") -> Work:
        x = lib.tensor(raw.chain_input(), requires_grad=True, device=device)
        a, b = raw.CHAIN_A, raw.CHAIN_B
        if not scalars:
            a, b = (lib.full((8,), value, device=device) for value in (a, b))

        def step() -> None:
            x.grad = None
            y = x
            for _ in range(length):
                y = y * a + b
            y.sum().backward()

        return Work(step, lambda: [x.grad.cpu().numpy()])

    return build


def wide(lib: Any, device: str = "cpu", length: int = raw.WIDE) -> Work:
    """tanh(x * a + b).sum() over 16 M elements, float32: forward, backward."""
    x = lib.tensor(raw.wide_input(length), requires_grad=True, device=device)
    a, b = (lib.full((1,), value, device=device) for value in (raw.CHAIN_A, raw.CHAIN_B))

    def step() -> None:
        x.grad = None
        lib.tanh(x * a + b).sum().backward()

    return Work(step, lambda: [x.grad.cpu().numpy()])


def mlp(lib: Any, device: str = "cpu") -> Work:
    """64-128-128-10, batch 32: forward, cross entropy, backward, SGD step, zero_grad."""
    nn = lib.nn
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    set_parameters(lib, model, raw.mlp_parameters())
    model.to(device)
    images, labels = (lib.from_numpy(v).to(device) for v in raw.mlp_batch())
    optimizer = lib.optim.SGD(model.parameters(), lr=raw.RATE)
    cross_entropy = lib.nn.functional.cross_entropy

    def step() -> None:
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return Work(step, lambda: [p.detach().cpu().numpy() for p in model.parameters()])


def modules(*kinds: str) -> Callable[..., Work]:
    """50 Linear(8, 8) one after the other, batch 4: forward, backward, zero_grad.

    kinds: of hooks on each of them, as in register_<kind>_hook; a hook does nothing but count.
    """

    def build(lib: Any, device: str = "cpu") -> Work:
        model = lib.nn.Sequential(*[lib.nn.Linear(8, 8) for _ in range(raw.LAYERS)])
        set_parameters(lib, model, raw.layer_parameters())
        model.to(device)
        x = lib.tensor(raw.layer_input(), requires_grad=True, device=device)
        fired = [0]

        def observe(module: Any, seen: Any, result: Any = None) -> None:
            fired[0] += 1

        for layer in model:
            for kind in kinds:
                getattr(layer, f"register_{kind}_hook")(observe)
        first = next(iter(model))
        kept: list[Array] = []

        def step() -> None:
            x.grad = None
            model(x).sum().backward()
            kept[:] = (x.grad, first.weight.grad)
            model.zero_grad()

        expected = len(kinds) * raw.LAYERS

        def values() -> list[Array]:
            assert fired[0] % raw.LAYERS == 0 and (fired[0] > 0) == (expected > 0)
            return [g.cpu().numpy() for g in kept]

        return Work(step, values)

    return build


def deep(lib: Any, device: str = "cpu", length: int = raw.DEEP) -> Work:
    """A chain of 100,000 multiplications of one element: forward, backward, release."""
    x = lib.tensor(np.ones(1, np.float32), requires_grad=True, device=device)
    a = lib.full((1,), raw.DEEP_A, device=device)

    def step() -> None:
        x.grad = None
        y = x
        for _ in range(length):
            y = y * a
        y.backward()

    return Work(step, lambda: [x.grad.cpu().numpy()])


ROWS = [
    Row("chain of 1000 x (y * a + b), 8 elements", 0.55, chain(False), raw.chain),
    Row("the same, a and b Python numbers", 0.60, chain(True), raw.chain),
    Row("MLP 64-128-128-10 step, batch 32, SGD", 0.55, mlp, raw.mlp),
    *STEP_ROWS,
    *KERNEL_ROWS,
    Row("50 Linear(8, 8), no hooks", 0.50, modules(), raw.layers),
    Row("50 Linear(8, 8), a forward hook on each", None, modules("forward"), raw.layers),
    Row(
        "50 Linear(8, 8), a full backward hook on each",
        0.22,
        modules("full_backward"),
        raw.layers,
    ),
    Row("tanh(x * a + b), 16 M elements", None, wide, raw.wide, rounds=7, copied=raw.WIDE),
    Row("graph of 100,000 nodes, one element", None, deep, raw.deep, rounds=7),
]
