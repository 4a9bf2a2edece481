"""Which call of which module a hook fires for."""

from __future__ import annotations

import contextvars
import gc
import threading

import pytest

import gradhook
from gradhook import nn
from gradhook.hooks import attach, current_call
from gradhook.nn.modules import module as everywhere

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


class Twice(nn.Module):
    """One layer called twice, in a block, in a model."""

    def __init__(self):
        super().__init__()
        self.block = nn.Module()
        self.block.fc = nn.Linear(1, 1, bias=False).double()
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.block.fc(self.block.fc(x)))


# ---- current_call


@pytest.mark.parametrize("hooked_root", [False, True])
def test_forward_and_backward_hooks_of_a_call_get_the_same_object(hooked_root):
    model, calls = Twice(), {}
    fc = model.block.fc

    def say(kind):
        def hook(m, *rest):
            call = current_call()
            assert call.module is m
            calls.setdefault(kind, []).append(call)

        return hook

    fc.register_forward_pre_hook(say("forward pre"))
    fc.register_forward_hook(say("forward"))
    fc.register_full_backward_pre_hook(say("pre"))
    fc.register_full_backward_hook(say("full"))
    fc.register_full_backward_hook(say("outputs"), when="outputs")
    fc.register_full_backward_hook(say("complete"), when="complete")
    if hooked_root:
        model.register_forward_pre_hook(lambda m, args: None)
    for _ in range(3):
        calls.clear()
        model(leaf([[1.0]])).sum().backward()
        first, second = calls["forward pre"]
        assert first is not second
        assert calls["forward"] == [first, second]
        for kind in ("pre", "full", "outputs", "complete"):
            assert calls[kind] == [second, first]
        assert [(c.name, c.index) for c in (first, second)] == [("block.fc", 0), ("block.fc", 1)]
    assert current_call() is None


def test_each_forward_of_the_model_counts_from_zero_and_modules_count_apart():
    model, log = Twice(), []

    def hook(m, a, o):
        log.append((current_call().name, current_call().index))

    expected = [("block.fc", 0), ("block.fc", 1), ("act", 0)]
    with attach(model, hook, kind="forward", name="*[cu]*"):  # block, block.fc and act
        for _ in range(2):
            log.clear()
            model(leaf([[1.0]]))
            assert log == expected
        log.clear()
        model.block.fc(leaf([[1.0]]))  # itself the outermost call
        assert log == [("", 0)]


def test_a_forward_within_a_backward_hook_is_a_forward_of_its_own():
    model, probe, log = Twice(), Twice(), []
    probe.block.fc.register_forward_hook(
        lambda m, a, o: log.append((current_call().name, current_call().index))
    )

    def hook(m, gi, go):
        outer = current_call()
        probe(leaf([[1.0]]))
        assert current_call() is outer

    model.block.fc.register_full_backward_hook(hook)
    for _ in range(2):
        log.clear()
        model(leaf([[1.0]])).sum().backward()
        assert log == [("block.fc", 0), ("block.fc", 1)] * 2


def test_calls_of_two_threads_are_told_apart():
    model, log, barrier = Twice(), [], threading.Barrier(2)

    def hook(m, a, o):
        barrier.wait()
        log.append(current_call().index)
        barrier.wait()

    model.block.fc.register_forward_hook(hook)
    threads = [threading.Thread(target=model, args=(leaf([[1.0]]),)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert log == [0, 0, 1, 1]


def test_a_thread_with_a_copied_context_has_calls_of_its_own():
    model, log = Twice(), []

    def hook(m, a, o):
        log.append((current_call().name, current_call().index))
        if len(log) == 1:
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(model, leaf([[1.0]])))
            thread.start()
            thread.join()

    model.block.fc.register_forward_hook(hook)
    model(leaf([[1.0]]))
    assert log == [("block.fc", i) for i in (0, 0, 1, 1)]


def test_global_hooks_have_a_call_for_every_module():
    model, log = Twice(), []
    with everywhere.register_module_full_backward_hook(
        lambda m, gi, go: log.append((current_call().name, current_call().index))
    ):
        model(leaf([[1.0]])).sum().backward()
    assert log == [("act", 0), ("block.fc", 1), ("block.fc", 0), ("", 0)]


def test_after_an_error_in_forward_no_call_is_left_over():
    model = Twice()
    model.block.fc.register_forward_hook(lambda m, a, o: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            model(leaf([[1.0]]))
        assert current_call() is None


def test_keep_io_shows_arguments_and_output_of_the_call_in_its_backward_hooks():
    class Scale(nn.Module):
        def forward(self, x, *, by):
            return {"y": x * by["k"]}

    module, log = Scale(), []
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))

    def hook(m, gi, go):
        call = current_call()
        log.append((call.args[0].item(), call.kwargs["by"]["k"].item(), call.output["y"].item()))
        assert not call.args[0].requires_grad and not call.output["y"].requires_grad

    module.register_full_backward_hook(hook, keep_io=True)
    x = leaf(2.0)
    module(x, by={"k": leaf(5.0)})["y"].backward()
    assert log == [(3.0, 5.0, 15.0)] and x.grad.item() == 5.0


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "full_backward_pre", "full_backward"])
def test_keep_io_may_be_asked_for_with_any_hook_of_the_module(kind):
    module, log = nn.ReLU(), []
    getattr(module, f"register_{kind}_hook")(lambda *a: None, keep_io=True)
    module.register_full_backward_hook(
        lambda m, gi, go: log.append((current_call().args[0].item(), current_call().output.item()))
    )
    module.register_forward_hook(lambda m, a, o: o * 3)
    module(leaf(2.0)).backward()
    assert log == [(2.0, 6.0)]


def test_without_keep_io_nothing_is_kept_and_asking_says_how():
    module, log = nn.ReLU(), []
    module.register_forward_hook(lambda m, a, o: log.append(current_call()))
    module(leaf(2.0))
    for what in ("args", "kwargs", "output"):
        with pytest.raises(RuntimeError, match=f"the {what} of this call.*keep_io=True"):
            getattr(log[0], what)


def test_kept_values_die_with_the_graph_without_the_collector():
    module, alive = nn.ReLU(), []

    class Watch:
        def __del__(self):
            alive.remove(id(self))

    def hook(m, gi, go):
        pass

    hook.held = Watch()
    alive.append(id(hook.held))
    module.register_full_backward_hook(hook, keep_io=True)
    gc.collect()
    gc.disable()
    try:
        y = module(leaf(2.0))
        del module, hook
        assert alive
        del y
        assert not alive
    finally:
        gc.enable()


def test_a_root_that_died_leaves_calls_without_a_name():
    model = Twice()
    calls, fc = [], model.block.fc
    fc.register_forward_hook(lambda m, a, o: calls.append(current_call()))
    model(leaf([[1.0]]))
    del model
    gc.collect()
    assert calls[0].name == "" and calls[1].index == 1
