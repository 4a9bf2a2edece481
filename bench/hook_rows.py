"""What a hook adds to a step: rows whose figure is a difference, with hooks less without."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from bench import raw
from bench.compare import lowest
from bench.rows import Work, library, modules

LEAVES = 100


class HookRow(NamedTuple):
    """build(lib, hooked): the same work without and with hooks. calls: hooks called a step.

    target: the largest ratio of what gradhook's and torch's hooks add that is good enough.
    """

    name: str
    target: float | None
    calls: int
    build: Callable[[Any, bool], Work]


def leaves(register: Callable[[Any], object]) -> Callable[[Any, bool], Work]:
    """The sum of 100 leaves of 8 elements, each times a factor: forward, backward; a hook on each
    leaf."""

    def build(lib: Any, hooked: bool) -> Work:
        xs = [lib.tensor(raw.chain_input(), requires_grad=True) for _ in range(LEAVES)]
        factor = lib.full((8,), raw.CHAIN_A)
        for x in xs:
            if hooked:
                register(x)

        def step() -> None:
            for x in xs:
                x.grad = None
            total = xs[0] * factor
            for x in xs[1:]:
                total = total + x * factor
            total.sum().backward()

        return Work(step, lambda: [x.grad.numpy() for x in xs])

    return build


def anew(lib: Any, hooked: bool, length: int = 200) -> Work:
    """y = y * a, 200 times, on 8 elements; a hook registered on each y, as hooks of activations
    are, in every step."""
    x = lib.tensor(raw.chain_input(), requires_grad=True)
    a = lib.full((8,), raw.CHAIN_A)

    def step() -> None:
        x.grad = None
        y = x
        for _ in range(length):
            y = y * a
            if hooked:
                y.register_hook(nothing)
        y.sum().backward()

    return Work(step, lambda: [x.grad.numpy()])


def saved(lib: Any, hooked: bool, length: int = raw.CHAIN) -> Work:
    """y = y * a + b, 1000 times, on 8 elements; saved_tensors_hooks that change nothing, one tensor
    saved a round."""
    graph = importlib.import_module(f"{lib.__name__}.autograd.graph")
    x = lib.tensor(raw.chain_input(), requires_grad=True)
    a, b = (lib.full((8,), value) for value in (raw.CHAIN_A, raw.CHAIN_B))

    def forward() -> Any:
        y = x
        for _ in range(length):
            y = y * a + b
        return y.sum()

    def step() -> None:
        x.grad = None
        if hooked:
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                y = forward()
        else:
            y = forward()
        y.backward()

    return Work(step, lambda: [x.grad.numpy()])


def layers(*kinds: str) -> Callable[[Any, bool], Work]:
    """50 Linear(8, 8): forward, backward; an empty hook of each kind on each."""

    def build(lib: Any, hooked: bool) -> Work:
        return modules(*kinds if hooked else ())(lib)

    return build


def nothing(value: Any) -> None:
    """A hook that changes nothing."""


HOOK_ROWS = [
    HookRow("tensor hook", 0.1, LEAVES, leaves(lambda x: x.register_hook(nothing))),
    HookRow("tensor hook, registered in each step", 0.1, 200, anew),
    HookRow(
        "post-accumulate hook",
        0.3,
        LEAVES,
        leaves(lambda x: x.register_post_accumulate_grad_hook(nothing)),
    ),
    HookRow("saved-tensor hooks (pack and unpack)", 0.3, raw.CHAIN, saved),
    HookRow("forward hook", 0.3, raw.LAYERS, layers("forward")),
    HookRow("full backward hook", 0.10, raw.LAYERS, layers("full_backward")),
    HookRow(
        "full backward pre-hook and hook",
        0.12,
        raw.LAYERS,
        layers("full_backward_pre", "full_backward"),
    ),
]


def measure(row: HookRow, rounds: int = 25) -> tuple[float, float | None]:
    """(seconds a call that gradhook's hooks add, the same of torch's or None)."""
    steps = {}
    for name, lib in (("gradhook", library("gradhook")), ("torch", library("torch"))):
        if lib is not None:
            steps[name] = row.build(lib, False).step
            steps[f"{name} hooked"] = row.build(lib, True).step
    fastest = lowest(steps, rounds)

    def added(name: str) -> float:
        return (fastest[f"{name} hooked"] - fastest[name]) / row.calls

    return added("gradhook"), added("torch") if "torch" in fastest else None


def line(row: HookRow, own: float, other: float | None) -> str:
    """A line of the table: microseconds a call, their ratio, and the verdict."""
    text = f"{'added by a ' + row.name:<46}{own * 1e6:>7.2f} us"
    if other is None:
        return text + f"{'-':>10}"
    ratio = own / other if other > 0 else float("nan")
    text += f"{other * 1e6:>7.2f} us{'-':>10}{ratio:>9.3f}{'':>13}"
    if row.target is None:
        return text
    return text + f"{row.target:>8.2f}{'met' if ratio <= row.target else 'NOT met':>9}"
