"""register_multi_grad_hook: one call for the gradients of several tensors.

What a backward run knows of it lives in the run's GraphTask, so runs in several threads, runs
inside runs and runs that raise don't mix, and nothing outlives them. Source:
torch.autograd.graph.register_multi_grad_hook; HOOKS.md B4, D6, D7.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from gradhook.autograd.binding import Binding
from gradhook.autograd.graph import GradientEdge, Node, hook_table
from gradhook.autograd.graph_task import GraphTask, current_task
from gradhook.autograd.views import edge_of
from gradhook.hooks.handle import RemovableHandle


class MultiGradHook:
    """fn and the places it waits for. It knows its nodes weakly: they own it by their hook tables.
    A node that died is in no run."""

    __slots__ = ("__weakref__", "every", "fn", "nodes")

    def __init__(self, fn: Callable[[Any], Any], every: bool, nodes: list[Node]) -> None:
        self.fn, self.every = fn, every
        self.nodes = [weakref.ref(node) for node in nodes]

    def received(self, k: int, grad: Any) -> None:
        """The gradient of place k has come, None where none flows."""
        task = current_task()
        if task is None:
            return
        if not self.every:
            if self not in task.local:
                task.local[self] = None
                self.fn(grad)
            return
        state = task.local.get(self)
        if state is None:
            due = sum(_is_due(task, of()) for of in self.nodes)
            state = task.local[self] = [due, [None] * len(self.nodes)]
        state[0] -= 1
        state[1][k] = grad
        if state[0] == 0:
            grads, state[1] = state[1], None
            self.fn(grads)


def _is_due(task: GraphTask, node: Node | None) -> bool:
    """Whether the tensor hooks of a node are still to be called in this run."""
    if node is None or not task.still_needs(node):
        return False
    return task.execute is None or node in task.execute or node in task.captures


class _Place:
    """The tensor hook at one of the places."""

    __slots__ = ("k", "of")

    def __init__(self, of: MultiGradHook, k: int) -> None:
        self.of, self.k = of, k

    def __call__(self, grad: Any) -> None:
        self.of.received(self.k, grad)


class MultiHandle(RemovableHandle):
    """Removes a hook from all its places. handles: one a place."""

    handles: tuple[RemovableHandle, ...]

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Take the hook away. A second call does nothing."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Any], Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once a backward run with the gradients of several tensors (or GradientEdges).

    mode="all": `fn(grads)`, a list with an entry a tensor, once all gradients that this run
    computes have come; None for those it does not compute. No call when it computes none of them.
    mode="any": `fn(grad)` with the first one. Results are ignored. The gradients are those after
    the hooks registered earlier, before those registered later.
    Errors: ValueError for another mode; TypeError when fn is not callable; AssertionError for a
    tensor that requires no grad (mode="any" passes it by). Source:
    torch.autograd.graph.register_multi_grad_hook, which refuses leaves under autograd.grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if not callable(fn):
        raise TypeError(f"fn: found {type(fn).__name__}, expected a function")
    places = []
    for k, t in enumerate(tensors):
        place = _place_of(k, t)
        if place is not None:
            places.append(place)
        elif mode == "all":
            raise AssertionError(
                f"Expected gradient function to be set: tensors[{k}] does not require grad; call "
                "requires_grad_() on it, or leave it out"
            )
    hook = MultiGradHook(fn, mode == "all", [node for node, _ in places])
    pairs = enumerate(places)
    return MultiHandle(tuple(hook_table(node, nr).add(_Place(hook, k)) for k, (node, nr) in pairs))


def _place_of(k: int, t: Any) -> tuple[Node, int] | None:
    if isinstance(t, GradientEdge):
        return t.node, t.output_nr
    if not isinstance(t, Binding.tensor):
        raise TypeError(f"tensors[{k}]: found {type(t).__name__}, expected a Tensor")
    node = edge_of(t)
    return None if node is None else (node, t._nr)
