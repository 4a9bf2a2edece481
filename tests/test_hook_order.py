"""The order that docs/hooks.md promises, all kinds of hooks in one backward run."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import autograd, nn
from gradhook.autograd.graph import get_accumulator
from gradhook.nn.modules.module import (
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)


class Square(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(gradhook.tensor([2.0]))

    def forward(self, x):
        return (x * self.w) ** 2


@pytest.fixture
def order():
    return []


def note(order, name):
    return lambda *_: order.append(name)


def at_the_tensor(order, name, t):
    t.register_hook(note(order, f"{name}: tensor hook 1"))
    t.register_hook(note(order, f"{name}: tensor hook 2"))


def at_the_node(order, name, node):
    node.register_hook(note(order, f"{name}: node hook 1"))
    node.register_hook(note(order, f"{name}: node hook 2"))
    node.register_prehook(note(order, f"{name}: node pre-hook 1"))
    node.register_prehook(note(order, f"{name}: node pre-hook 2"))


def around(name, *inner):
    tensor = [f"{name}: tensor hook {k}" for k in (1, 2)]
    before = [f"{name}: node pre-hook {k}" for k in (1, 2)]
    after = [f"{name}: node hook {k}" for k in (1, 2)]
    return [*tensor, *before, *inner, *after]


def test_every_kind_of_hook_in_one_run(order):
    module = Square()
    register = module.register_full_backward_hook
    register(note(order, "module: complete"), when="complete")
    module.register_params_ready_hook(note(order, "module: params ready"))
    register(note(order, "module: full 1"))
    register(note(order, "module: full 2"))
    register(note(order, "module: full 0"), prepend=True)
    module.register_full_backward_pre_hook(note(order, "module: pre 1"))
    handles = [
        register_module_full_backward_pre_hook(note(order, "global: pre")),
        register_module_full_backward_hook(note(order, "global: full")),
    ]
    x = gradhook.tensor([3.0], requires_grad=True)
    inner = x * 1
    out = module(inner)
    barrier = out.grad_fn.next_functions[0][0].next_functions[0][0].next_functions[0][0]
    assert type(barrier).__name__ == "ModuleInputHookNode"
    for name, t in (("out", out), ("w", module.w)):
        at_the_tensor(order, name, t)
    at_the_node(order, "out", out.grad_fn)
    at_the_node(order, "w", get_accumulator(module.w))
    module.w.register_post_accumulate_grad_hook(note(order, "w: post-accumulate"))
    at_the_node(order, "in", barrier)
    out.register_hook(lambda g: autograd.queue_callback(note(order, "end: callback 1")))
    x.register_hook(lambda g: autograd.queue_callback(note(order, "end: callback 2")))
    x.register_hook(note(order, "end: host hook"), host=True)
    out.sum().backward()
    for handle in handles:
        handle.remove()
    full = ["global: full", *(f"module: full {k}" for k in (0, 1, 2))]
    waits = ["module: complete", "module: params ready"]
    host = [x for x in order if x == "end: host hook"]
    assert [x for x in order if x not in (*waits, *host)] == [
        *around("out", "global: pre", "module: pre 1"),
        *around("w", "w: post-accumulate"),
        *around("in", *full)[2:],
        "end: callback 1",
        "end: callback 2",
    ]
    assert host and order.index(waits[0]) > order.index("in: node hook 2")
    assert order.index(waits[1]) > order.index("w: node hook 2")


def test_what_is_captured_is_after_tensor_hooks_and_before_node_pre_hooks(order):
    x = gradhook.tensor([3.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda g: (g[0] * 100,))
    (captured, rest) = autograd.grad(y.sum(), [y, x], retain_graph=True)
    assert (captured.item(), rest.item(), y.grad.item()) == (10, 2000, 10)
