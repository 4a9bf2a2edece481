"""Post-accumulate hooks and retain_grad."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradhook
from gradhook import autograd

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def values(g):
    return None if g is None else g.tolist()


# ---- register_post_accumulate_grad_hook


def test_post_accumulate_gets_the_parameter_itself_and_may_step_and_clear():
    x, seen = leaf([1.0]), []

    def step(p):
        seen.append(p is x and gradhook.is_grad_enabled())
        with gradhook.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        (x * 5).sum().backward()
    assert seen == [False, False] and x.tolist() == [0.0] and x.grad is None


def test_post_accumulate_sees_the_running_sum_in_registration_order():
    x, log = leaf([1.0]), []
    x.register_post_accumulate_grad_hook(lambda p: log.append(("a", values(p.grad))))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("b", values(p.grad))))
    for _ in range(2):
        (x * 5 + x).sum().backward()
    assert log == [("a", [6]), ("b", [6]), ("a", [12]), ("b", [12])]


def test_post_accumulate_fires_only_where_something_was_accumulated():
    x, w, log = leaf([1.0]), leaf([1.0]), []
    x.register_post_accumulate_grad_hook(lambda p: log.append("x"))
    w.register_post_accumulate_grad_hook(lambda p: log.append("w"))
    autograd.grad((x * w).sum(), [x])
    assert log == []
    (x * w).sum().backward(inputs=[w])
    assert log == ["w"]


def test_a_nested_backward_on_the_same_parameter_in_post_accumulate_adds_up():
    x, log = leaf([1.0]), []

    def nested(p):
        log.append(values(p.grad))
        if len(log) == 1:
            with gradhook.enable_grad():
                (p * 5).sum().backward()

    x.register_post_accumulate_grad_hook(nested)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [8] and log == [[3], [8]]


def test_post_accumulate_registration_and_results_are_checked():
    x = leaf([1.0])
    with pytest.raises(
        RuntimeError, match=r"^post accumulate grad hooks cannot be registered on non-"
    ):
        (x * 1).register_post_accumulate_grad_hook(print)
    with pytest.raises(
        RuntimeError, match=r"^cannot register a hook on a tensor that doesn't require"
    ):
        gradhook.ones(1).register_post_accumulate_grad_hook(print)
    x.register_post_accumulate_grad_hook(lambda p: p)  # the parameter itself is allowed
    (x * 1).sum().backward()
    x.register_post_accumulate_grad_hook(lambda p: p.grad)
    with pytest.raises(
        RuntimeError, match=r"^Tensor post accumulate grad hooks should return None."
    ):
        (x * 1).sum().backward()


# ---- retain_grad


def test_retain_grad_keeps_a_sum_over_runs_and_both_ways_of_asking():
    x = leaf([1.0])
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    z = (y * 3).sum()
    z.backward(retain_graph=True)
    autograd.grad(z, [x])
    assert y.retains_grad and y.grad.tolist() == [6]


def test_retain_grad_of_a_leaf_does_nothing_and_without_grad_is_refused():
    x = leaf([1.0])
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(
        RuntimeError, match=r"^can't retain_grad on Tensor that has requires_grad=False"
    ):
        gradhook.ones(1).retain_grad()


def test_retain_grad_sees_hooks_registered_after_it_and_follows_in_place():
    x = leaf([1.0])
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    z = y * 1
    z.retain_grad()
    z.mul_(3)
    (z * 7).sum().backward()
    assert y.grad.tolist() == [210] and z.grad.tolist() == [7]


def test_reading_grad_of_a_non_leaf_without_retain_grad_warns():
    y = leaf([1.0]) * 2
    with pytest.warns(
        UserWarning, match=r"The .grad attribute of a Tensor that is not a leaf Tensor"
    ):
        assert y.grad is None


# ---- life


def test_a_hook_and_what_it_holds_die_with_the_graph_without_the_collector():
    class Held:
        pass

    gc.collect()
    gc.disable()
    try:
        x, held = leaf([1.0]), Held()
        y = x * 2
        y.register_hook(lambda g, held=held: None)
        x.register_hook(lambda g, held=held: None)
        x.register_post_accumulate_grad_hook(lambda p, held=held: None)
        y.sum().backward()
        dead = weakref.ref(held)
        del x, y, held
        assert dead() is None
    finally:
        gc.enable()
