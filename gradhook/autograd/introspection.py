"""Questions about the graph and the backward run that code is called from.

Source: torch.autograd.graph.get_gradient_edge, and PyTorch's private
`torch._C._current_graph_task_id`, `_current_autograd_node`, `_will_engine_execute_node` and
`_current_graph_task_execution_order`, which gradhook._C has under those names.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from gradhook.autograd.binding import Binding
from gradhook.autograd.graph import AccumulateGrad, GradientEdge, Node
from gradhook.autograd.graph_task import GraphTask, current_task
from gradhook.autograd.multithreading import is_multithreading_enabled
from gradhook.autograd.views import edge_of


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of a tensor goes: for autograd.grad, backward and register_hook, without
    the tensor. A later write in place gives the tensor another edge; this one stays.

    Errors: RuntimeError for a tensor that requires no grad; TypeError for what is none.
    """
    if not isinstance(tensor, Binding.tensor):
        raise TypeError(f"get_gradient_edge: found {type(tensor).__name__}, expected a Tensor")
    node = edge_of(tensor)
    if node is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients; call requires_grad_() on it first"
        )
    return GradientEdge(node, tensor._nr)


def get_accumulator(tensor: Any) -> AccumulateGrad:
    """The node that adds to a leaf's .grad: one for the tensor's life, which owns it, so that node
    hooks registered on it stay.

    Errors: RuntimeError for a tensor that is no leaf or requires no grad.
    """
    node = get_gradient_edge(tensor).node
    if not isinstance(node, AccumulateGrad):
        raise RuntimeError(
            f"get_accumulator: the tensor is no leaf, {node.name()} made it; ask for its .grad_fn"
        )
    return node


def current_graph_task_id() -> int:
    """The number of the current backward run, -1 outside."""
    task = current_task()
    return -1 if task is None else task.id


def current_graph_task_keep_graph() -> bool:
    """Whether the current run keeps what nodes saved (retain_graph); True outside, as PyTorch's."""
    task = current_task()
    return True if task is None else task.keep


def current_autograd_node() -> Node | None:
    """The node whose hooks, or whose own code, run now; None outside a run."""
    task = current_task()
    return None if task is None else task.node


def _task(who: str) -> GraphTask:
    task = current_task()
    if task is None:
        raise RuntimeError(f"{who} should only be called during the backward pass")
    return task


def will_engine_execute_node(node: Any) -> bool:
    """Whether the current run computes what flows into a node: it runs or ran it, or only its
    gradient was asked for by autograd.grad.

    Errors: RuntimeError outside a run, and for what is no node; under compat("torch") for a leaf
    whose gradient autograd.grad was asked for.
    """
    if not isinstance(node, Node):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    task = _task("_will_engine_execute_node")
    if task.compat and node.leaf and node in task.captures:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running "
            "autograd.grad(). This is currently not supported. (under compat('torch'))"
        )
    if task.execute is not None:
        return node in task.execute or node in task.captures
    if _reached not in task.local:
        task.local[_reached] = _reached(task.roots)
    return node in task.local[_reached]


def _reached(roots: tuple[Node, ...]) -> set[Node]:
    found, stack = set(roots), list(roots)
    while stack:
        for node in stack.pop().edges[::2]:
            if node not in found:
                found.add(node)
                stack.append(node)
    return found


def current_graph_task_execution_order() -> list[Node]:
    """The nodes that the current run has still to execute, this one included, and those whose
    gradient autograd.grad was asked for, in their order.

    Errors: RuntimeError outside a run; under compat("torch") as long as
    set_multithreading_enabled(False) was not called.
    """
    task = _task("_current_graph_task_execution_order")
    if task.compat and is_multithreading_enabled():
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with "
            "multithreading disabled, e.g. by running: "
            "with autograd.set_multithreading_enabled(False): loss.backward()"
        )
    left = dict(task.pending)
    ready = [(-node.seq, node) for node, waiting in left.items() if not waiting]
    heapify(ready)
    order = []
    while ready:
        node = heappop(ready)[1]
        if task.execute is None or node in task.execute or node in task.captures:
            order.append(node)
        for following in node.edges[::2]:
            left[following] -= 1
            if not left[following]:
                heappush(ready, (-following.seq, following))
    return order
