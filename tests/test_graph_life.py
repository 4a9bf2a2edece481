"""Graphs: a million nodes, death by reference counting, and what an error leaves behind."""

from __future__ import annotations

import gc
import resource
import weakref

import pytest

import gradhook
from gradhook import autograd


def leaf(values):
    return gradhook.tensor(values, dtype=gradhook.float64, requires_grad=True)


class nothing_collects:
    """The cyclic collector is off inside: what dies there dies by reference counting."""

    def __enter__(self):
        gc.collect()
        gc.disable()

    def __exit__(self, *error):
        gc.enable()


# ---- size and memory


def test_a_million_chained_nodes_run_and_are_freed_by_reference_counting():
    def chain(n):
        x, one = leaf(1.0), gradhook.ones((), dtype=gradhook.float64)
        y = x
        for _ in range(n):
            y = y * one
        return x, y

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()

    with nothing_collects():
        x, y = chain(1000)
        y.backward()
        del x, y
        before = resident()
        x, y = chain(1_000_000)
        grown = resident() - before
        middle = weakref.ref(y.grad_fn.next_functions[0][0])
        y.backward()
        assert x.grad.item() == 1
        del y
        assert middle() is None
        assert resident() - before < grown / 2


def test_graphs_die_with_their_last_tensor_even_when_never_run():
    with nothing_collects():
        x = leaf([1.0, 2.0])
        y = x.exp() * x.sum()
        a, b = y.split(1)
        z = (a * b).relu().sum()
        nodes = [weakref.ref(t.grad_fn) for t in (y, a, z)]
        tensors = [weakref.ref(t) for t in (y, a, b, z)]
        del y, a, b, z
        assert [r() for r in nodes + tensors] == [None] * 7


def test_leaf_gradient_and_hooks_die_by_reference_counting_after_a_run():
    with nothing_collects():
        x = leaf([1.0, 2.0])
        x.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda p: None)
        y = x.exp()
        y.retain_grad()
        y.sum().backward()
        dead = [weakref.ref(x), weakref.ref(x.grad), weakref.ref(y), weakref.ref(y.grad)]
        del x, y
        assert [r() for r in dead] == [None] * 4


def test_a_double_graph_dies_by_reference_counting():
    with nothing_collects():
        x = leaf([1.0, 2.0])
        (g,) = autograd.grad((x.exp() * x).sum(), [x], create_graph=True)
        node = weakref.ref(g.grad_fn)
        del g
        assert node() is None


# ---- errors


def test_an_error_names_the_node_and_leaves_the_engine_usable():
    x, w = leaf(2.0), leaf(5.0)
    y = x.exp()
    y.grad_fn.register_prehook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        (y * w).backward()
    assert any("ExpBackward0" in note for note in caught.value.__notes__)
    assert w.grad.item() == y.item() and x.grad is None  # what was accumulated so far stays
    assert gradhook.is_grad_enabled()
    assert autograd.engine.current_task() is None and not autograd.engine._active
    (x * 3).backward()
    assert x.grad.item() == 3


def test_an_error_in_a_nested_run_leaves_the_outer_runs_modes():
    x, seen = leaf(2.0), []

    def hook(g):
        y = x.detach().requires_grad_()
        with gradhook.enable_grad():
            z = y * y
        z.register_hook(lambda h: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            z.backward()
        seen.append(gradhook.is_grad_enabled())

    x.register_hook(hook)
    (x * x).backward()
    assert seen == [False] and x.grad.item() == 4 and gradhook.is_grad_enabled()


def test_callbacks_run_at_the_end_first_queued_first():
    x, log = leaf(2.0), []

    def hook(g):
        autograd.queue_callback(lambda: log.append("first"))
        autograd.queue_callback(lambda: log.append("second"))
        log.append("hook")

    x.register_hook(hook)
    (x * 2).backward()
    assert log == ["hook", "first", "second"]
    with pytest.raises(
        RuntimeError, match=r"Final callbacks can only be installed during backward"
    ):
        autograd.queue_callback(print)
