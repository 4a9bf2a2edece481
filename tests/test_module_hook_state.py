"""ModuleBackwardHookState: its attributes in and out of a run, repeated runs, threads, life."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest

import gradhook
from gradhook import autograd, nn
from gradhook.autograd.module_hook_node import (
    ModuleBackwardHookState,
    ModuleInputHookNode,
    ModuleOutputHookNode,
)
from gradhook.nn.modules import module as everywhere
from gradhook.storage import Storage

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


class Mix(nn.Module):
    """Three arguments, two outputs: one integer, one tensor of both tensors."""

    def forward(self, a, n, b):
        return gradhook.arange(2), a * n + b


def barriers(output):
    """The output barrier of a tensor, and the input barrier behind it."""
    out = output.grad_fn
    node = out
    while not isinstance(node, ModuleInputHookNode):
        node = node.next_functions[0][0]
    return out, node


@pytest.fixture
def nothing_collects():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- attributes


def called():
    module, a, b = Mix(), leaf([1.0, 2.0]), gradhook.ones(2, 1, requires_grad=True)
    module.register_full_backward_pre_hook(lambda m, go: None)
    module.register_full_backward_hook(lambda m, gi, go: None)
    _, y = module(a, 3, b)
    return module, a, b, y


def test_both_barriers_share_one_state_with_what_was_known_at_the_call():
    _, _, _, y = called()
    out, into = barriers(y)
    state = out.state
    assert isinstance(out, ModuleOutputHookNode) and into.state is state
    assert isinstance(state, ModuleBackwardHookState)
    assert state.n_inputs == 3 and state.n_outputs == 2
    assert tuple(state.input_arg_indices) == (0, 2)
    assert [(tuple(m.shape), m.dtype.name) for m in state.input_metas] == [
        ((2,), "float64"),
        ((2, 1), "float32"),
    ]
    first, second = state.output_metas
    assert first is None and tuple(second.shape) == (2, 2) and second.dtype.name == "float64"
    assert tuple(state.output_edge_indices) == (1,)
    assert callable(state.pre_runner) and callable(state.full_runner)


def test_outside_a_run_nothing_ran_and_there_are_no_gradients():
    _, _, _, y = called()
    state = y.grad_fn.state
    for _ in range(2):
        assert state.pre_hooks_ran is False and state.full_hooks_ran is False
        assert state.grad_inputs is None and state.grad_outputs is None
        y.sum().backward(retain_graph=True)


def test_without_hooks_of_a_kind_its_runner_is_none():
    module = Mix()
    handle = module.register_full_backward_hook(lambda m, gi, go: None)
    state = module(leaf([1.0]), 1, leaf([1.0]))[1].grad_fn.state
    assert state.pre_runner is None and state.full_runner is not None
    handle.remove()
    module.register_full_backward_pre_hook(lambda m, go: None)
    state = module(leaf([1.0]), 1, leaf([1.0]))[1].grad_fn.state
    assert state.pre_runner is not None and state.full_runner is None


def test_the_runners_fan_out_to_every_hook_and_return_replacements():
    module, log = Mix(), []
    module.register_full_backward_pre_hook(lambda m, go: log.append("p1") or (None, go[1] * 2))
    module.register_full_backward_pre_hook(lambda m, go: log.append(go[1].tolist()))
    module.register_full_backward_hook(lambda m, gi, go: log.append("f1"))
    state = module(leaf([1.0]), 1, leaf([1.0]))[1].grad_fn.state
    g = gradhook.ones(1, dtype=F64)
    assert state.pre_runner((None, g))[1].tolist() == [2]
    assert state.full_runner((g, None, g), (None, g)) is None
    assert log == ["p1", [2], "f1"]


def test_inside_a_run_the_state_shows_what_ran_and_the_gradients_as_storages():
    module, log = Mix(), []

    def look(name):
        def hook(m, *gradients):
            state = holder["state"]
            log.append((name, state.pre_hooks_ran, state.full_hooks_ran))
            holder[name] = (state.grad_inputs, state.grad_outputs)

        return hook

    holder = {}
    module.register_full_backward_pre_hook(look("pre"))
    module.register_full_backward_hook(look("full"))
    a, b = leaf([1.0, 2.0]), leaf([5.0, 6.0])
    a.register_hook(look("after"))
    _, y = module(a, 3, b)
    holder["state"] = y.grad_fn.state
    (y * 10).sum().backward()
    assert log == [("pre", True, False), ("full", True, True), ("after", True, True)]
    grad_inputs, grad_outputs = holder["pre"]
    assert grad_inputs is None and grad_outputs[0] is None
    assert isinstance(grad_outputs[1], Storage) and grad_outputs[1].host().tolist() == [10, 10]
    grad_inputs, grad_outputs = holder["full"]
    assert [None if s is None else s.host().tolist() for s in grad_inputs] == [
        [30, 30],
        None,
        [10, 10],
    ]
    assert grad_outputs[1].host().tolist() == [10, 10]


def test_the_guards_hold_once_a_run_and_are_fresh_in_the_next():
    module, log = Mix(), []
    module.register_full_backward_pre_hook(lambda m, go: log.append("pre"))
    module.register_full_backward_hook(lambda m, gi, go: log.append("full"))
    _, y = module(leaf([1.0]), 3, leaf([1.0]))
    for _ in range(3):
        (y + y).sum().backward(retain_graph=True)
    assert log == ["pre", "full"] * 3


def test_runners_are_released_when_the_barriers_have_run_without_retain_graph():
    module, _, _, y = called()
    out, into = barriers(y)
    hook = next(iter(module._backward_hooks.values()))
    y.sum().backward(retain_graph=True)
    assert out.state is into.state
    y.sum().backward()
    for node in (out, into):
        with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second"):
            node.state  # noqa: B018
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        y.sum().backward()
    assert hook is not None


def test_hooks_are_those_of_the_time_of_the_call():
    module, log = Mix(), []
    handle = module.register_full_backward_hook(lambda m, gi, go: log.append("old"))
    _, y = module(leaf([1.0]), 3, leaf([1.0]))
    handle.remove()
    module.register_full_backward_hook(lambda m, gi, go: log.append("new"))
    y.sum().backward()
    assert log == ["old"]


def test_double_backward_past_the_outputs_is_counted_not_fired():
    module, log = nn.Linear(2, 2, bias=False).double(), []
    module.register_full_backward_hook(lambda m, gi, go: log.append("hook"))
    a = leaf([[1.0, 2.0]])
    h = module(a)
    state = h.grad_fn.state
    (gw,) = autograd.grad((h * 5).sum(), [module.weight], create_graph=True)
    log.clear()
    autograd.grad(gw.sum(), [a])
    assert log == [] and state.skipped == 1


def test_a_backward_in_a_hook_through_the_same_call_is_a_run_of_its_own():
    module, log = nn.Linear(1, 1, bias=False).double(), []

    def hook(m, gi, go):
        log.append(go[0].item())
        if len(log) == 1:
            with gradhook.enable_grad():
                (y * 5).sum().backward(retain_graph=True)

    module.register_full_backward_hook(hook)
    x = leaf([[2.0]])
    y = module(x)
    y.sum().backward(retain_graph=True)
    assert log == [1.0, 5.0] and x.grad.item() == 6 * module.weight.item()


# ---- threads


def test_four_threads_on_one_hooked_graph_never_mix_their_gradients():
    # PyTorch paired 23 of 1200 wrongly (HOOKS.md D5)
    modules = nn.Sequential(*[nn.Linear(3, 3, bias=False).double() for _ in range(4)])
    wrong, barrier = [], threading.Barrier(4)
    sizes = threading.local()

    def hook(m, gi, go):
        ratio = go[0] / sizes.scale
        if not gradhook.allclose(ratio, expected[m]) or not gradhook.allclose(
            gi[0] / sizes.scale, expected_in[m]
        ):
            wrong.append((m, sizes.scale))

    expected, expected_in = {}, {}
    for m in modules:
        m.register_full_backward_hook(
            lambda m, gi, go: (
                (expected.setdefault(m, go[0]), expected_in.setdefault(m, gi[0])) and None
            )
        )
    x = leaf([[1.0, 2.0, 3.0]])
    modules(x).sum().backward()
    for m in modules:
        m._backward_hooks.clear()
        m.register_full_backward_hook(hook)
    y = modules(x).sum()

    def work(scale):
        sizes.scale = scale
        barrier.wait()
        for _ in range(300):
            y.backward(gradhook.tensor(scale, dtype=F64), retain_graph=True)

    threads = [threading.Thread(target=work, args=(s,)) for s in (1.0, 10.0, 100.0, 1000.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


# ---- life


def test_module_gradients_and_hooks_die_without_the_collector(nothing_collects):
    class Held:
        pass

    module, held, kept = nn.Linear(2, 2), Held(), []
    module.register_full_backward_hook(lambda m, gi, go, held=held: kept.append(weakref.ref(gi[0])))
    module.register_full_backward_pre_hook(lambda m, go, held=held: kept.append(weakref.ref(go[0])))
    x = gradhook.ones(1, 2, requires_grad=True)
    y = module(x)
    y.sum().backward()
    assert len(kept) == 2 and [r() for r in kept] == [None, None]
    dead = [weakref.ref(module), weakref.ref(held), weakref.ref(y.grad_fn)]
    del module, held, y
    assert [r() for r in dead] == [None] * 3


def test_a_graph_that_never_ran_dies_without_the_collector(nothing_collects):
    module, x = nn.Linear(2, 2), gradhook.ones(1, 2, requires_grad=True)
    module.register_full_backward_hook(lambda m, gi, go: None)
    y = module(module(x))
    out, into = barriers(y)
    dead = [weakref.ref(out), weakref.ref(into), weakref.ref(out.state)]
    del y, out, into
    assert [r() for r in dead] == [None] * 3


def test_after_an_error_in_a_hook_no_gradient_is_kept(nothing_collects):
    module, kept = nn.Linear(2, 2), []

    def broken(m, gi, go):
        kept.append(weakref.ref(go[0]))
        raise KeyError

    module.register_full_backward_hook(broken)
    y = module(gradhook.ones(1, 2, requires_grad=True))
    try:
        y.sum().backward()
    except KeyError:
        pass
    assert len(kept) == 1 and kept[0]() is None


def test_the_forward_tensors_are_not_kept_by_the_barriers(nothing_collects):
    module = nn.ReLU()
    module.register_full_backward_hook(lambda m, gi, go: None)
    h = gradhook.ones(2, requires_grad=True) * 1
    y = module(h)
    dead = weakref.ref(h)
    del h
    assert dead() is None and y is not None


# ---- copies, global forms


def test_a_hooked_module_can_be_copied_after_a_call_and_its_hooks_go_along():
    log = []
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda m, gi, go: log.append(m))
    module(gradhook.ones(1, 2, requires_grad=True))
    twin = copy.deepcopy(module)
    twin(gradhook.ones(1, 2, requires_grad=True)).sum().backward()
    assert log == [twin]


def test_global_backward_hooks_fire_for_every_module_and_can_be_removed():
    log = []
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with (
        everywhere.register_module_full_backward_pre_hook(lambda m, go: log.append(("pre", m))),
        everywhere.register_module_full_backward_hook(lambda m, gi, go: log.append(("full", m))),
    ):
        y = model(gradhook.ones(1, 2, requires_grad=True))
    y.sum().backward()
    linear, relu = model
    assert log == [
        *(("pre", model), ("pre", relu), ("full", relu)),
        *(("pre", linear), ("full", linear), ("full", model)),
    ]
    log.clear()
    model(gradhook.ones(1, 2, requires_grad=True)).sum().backward()
    assert log == []


def test_global_hooks_replace_gradients_before_local_ones_see_them():
    seen, x = [], gradhook.ones(2, requires_grad=True)
    module = nn.ReLU()
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi[0].tolist()))
    with everywhere.register_module_full_backward_hook(lambda m, gi, go: (gi[0] * 10,)):
        module(x).sum().backward()
    assert seen == [[10, 10]] and x.grad.tolist() == [10, 10]
