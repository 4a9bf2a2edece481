"""register_multi_grad_hook: one call a run, state of the run only (HOOKS.md 1.3, D6, D7)."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import gradhook
from gradhook import autograd
from gradhook.autograd.graph import get_gradient_edge, register_multi_grad_hook

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def values(grads):
    return [None if g is None else g.tolist() for g in grads]


class Fails(autograd.Function):
    """Passes its input on; its backward raises while `broken`."""

    broken = True

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        if Fails.broken:
            raise ValueError("broken")
        return g


def test_all_calls_once_a_run_with_the_gradients_in_order():
    x, log = leaf([1.0]), []
    y = x * 2
    z = y * 3
    register_multi_grad_hook((x, z, y), lambda grads: log.append(values(grads)))
    z.backward(retain_graph=True)
    z.backward()
    assert log == [[[6], [1], [3]]] * 2


def test_all_waits_for_what_the_run_computes_and_has_none_for_the_rest():
    a, b, c, log = leaf([1.0]), leaf([2.0]), leaf([3.0]), []
    unused = a * 5
    register_multi_grad_hook((a, b, c, unused), lambda grads: log.append(values(grads)))
    out = b * c
    out.backward(inputs=(b, c), retain_graph=True)
    out.backward(inputs=(c,), retain_graph=True)
    autograd.grad(out, b, retain_graph=True)
    assert log == [
        [None, [3], [2], None],
        [None, None, [2], None],
        [None, [3], None, None],
    ]
    autograd.grad(unused.sum(), unused)
    assert log[3:] == [[None, None, None, [1]]]


def test_all_counts_a_gradient_that_does_not_flow():
    x, log = leaf([1.0, 2.0]), []
    a, b = x.unbind()
    register_multi_grad_hook((a, b), lambda grads: log.append(values(grads)))
    a.backward()
    assert log == [[1, None]]


def test_leaves_under_grad_are_answered():
    x, log = leaf([1.0]), []
    y = x * x
    register_multi_grad_hook((x, y), lambda grads: log.append(values(grads)))
    autograd.grad(y, x)
    assert log == [[[2], [1]]]


def test_any_calls_once_a_run_with_the_first_gradient():
    x, log = leaf([1.0]), []
    y = x * 2
    z = y * 3
    register_multi_grad_hook((x, y, z), lambda g: log.append(g.tolist()), mode="any")
    z.backward(retain_graph=True)
    autograd.grad(z, x, retain_graph=True)
    y.backward()
    assert log == [[1], [1], [1]]


def test_it_sees_what_earlier_hooks_did_and_nothing_of_later_ones():
    x, log = leaf([1.0]), []
    x.register_hook(lambda g: g * 10)
    register_multi_grad_hook((x,), lambda grads: log.append(values(grads)) or 5)
    x.register_hook(lambda g: g * 7)
    (x * 2).backward()
    assert log == [[[20]]] and x.grad.tolist() == [140]


def test_under_create_graph_the_gradients_are_differentiable():
    x, seen = leaf([2.0]), []
    y = x * x * x
    register_multi_grad_hook((x,), lambda grads: seen.append(grads[0]))
    autograd.grad(y, x, create_graph=True)
    assert autograd.grad(seen[0], x)[0].tolist() == [12]


def test_edges_take_the_place_of_tensors():
    x, log = leaf([1.0]), []
    y = x * 2
    register_multi_grad_hook((get_gradient_edge(y), x), lambda grads: log.append(values(grads)))
    (y * 3).backward()
    assert log == [[[3], [6]]]


def test_a_run_that_raises_leaves_nothing_for_the_next():
    x, log = leaf([1.0]), []
    y = Fails.apply(x)
    z = y * 2
    for mode in ("all", "any"):
        register_multi_grad_hook((x, z), lambda g, mode=mode: log.append(mode), mode=mode)
    Fails.broken = True
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"):
            z.backward(retain_graph=True)
    assert log == ["any"] * 3
    Fails.broken = False
    z.backward()
    assert log[3:] == ["any", "all"]


def test_runs_inside_runs_are_counted_apart():
    x, log = leaf([1.0]), []
    y = x * 2
    z = y * 3

    def again(g):
        if len(log) < 1:
            autograd.grad(y, x, retain_graph=True)

    register_multi_grad_hook((x, y), lambda grads: log.append(values(grads)))
    z.register_hook(again)
    z.backward()
    assert log == [[[2], [1]], [[6], [3]]]


def test_threads_do_not_take_each_others_counts():
    x, w, log = leaf([1.0]), leaf([2.0]), []
    y = x * 2
    out = (y * w).sum()
    register_multi_grad_hook((x, y, w), lambda grads: log.append(sum(g is None for g in grads)))

    def work(inputs):
        for _ in range(50):
            autograd.grad(out, inputs, retain_graph=True)

    threads = [
        threading.Thread(target=work, args=(inputs,)) for inputs in ((x, w), (w,), (x,), (x, y, w))
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(log) == [0] * 100 + [1] * 50 + [2] * 50


@pytest.mark.parametrize("mode", ["all", "any"])
def test_remove_takes_it_away_everywhere(mode):
    x, log = leaf([1.0]), []
    y = x * 2
    handle = register_multi_grad_hook((x, y), log.append, mode=mode)
    with handle:
        y.backward(retain_graph=True)
    y.backward()
    handle.remove()
    assert len(log) == 1


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("mode", ["all", "any"])
def test_nothing_outlives_the_tensors_and_the_run(mode, raises):
    class Note:
        pass

    def run():
        x = leaf([1.0])
        y = Fails.apply(x * 2)
        note = Note()
        register_multi_grad_hook((x, y), lambda g, note=note: None, mode=mode)
        seen = []
        y.register_hook(lambda g: seen.append(weakref.ref(g)))
        try:
            y.sum().backward()
        except ValueError:
            pass
        return [weakref.ref(note), weakref.ref(y.grad_fn), *seen]

    Fails.broken = raises
    gc.collect()
    gc.disable()
    try:
        assert [r() for r in run()] == [None] * 3
    finally:
        gc.enable()


def test_errors():
    x = leaf([1.0])
    with pytest.raises(
        ValueError, match=r"^Expects mode to be one of \('all', 'any'\) but got foo"
    ):
        register_multi_grad_hook((x,), print, mode="foo")
    with pytest.raises(
        AssertionError, match=r"^Expected gradient function to be set: tensors\[1\]"
    ):
        register_multi_grad_hook((x, gradhook.ones(1)), print)
    with pytest.raises(TypeError, match=r"tensors\[0\]: found int, expected a Tensor"):
        register_multi_grad_hook((3,), print)
    with pytest.raises(TypeError, match="fn: found int, expected a function"):
        register_multi_grad_hook((x,), 3)
    register_multi_grad_hook((gradhook.ones(1), x), print, mode="any").remove()
