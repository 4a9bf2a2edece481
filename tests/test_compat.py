"""compat("torch"): PyTorch's refusals and quirks, where and as long as they are asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

import gradhook
from gradhook import compat, nn
from gradhook.autograd.graph_task import current_task
from gradhook.modes import get_modes

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


class Scaled(nn.Module):
    def forward(self, x, c):
        return x * c


# ---- the mode


def test_compat_holds_inside_nests_and_is_restored_also_after_an_error():
    assert not get_modes().compat
    with pytest.raises(KeyboardInterrupt), compat("torch"):
        assert get_modes().compat
        with compat(None), gradhook.no_grad():
            assert not get_modes().compat and not gradhook.is_grad_enabled()
        with gradhook.no_grad(), gradhook.enable_grad():
            assert get_modes().compat and gradhook.is_grad_enabled()
        raise KeyboardInterrupt
    assert not get_modes().compat

    @compat("torch")
    def inside():
        return get_modes().compat

    assert inside() and not get_modes().compat


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="compat: found 'jax', expected 'torch' or None"):
        compat("jax")


@pytest.mark.parametrize("value", ["", "torch", "jax"])
def test_the_environment_asks_for_a_whole_process(value):
    code = "import gradhook; print(gradhook.modes.get_modes().compat)"
    env = {**os.environ, "GRADHOOK_COMPAT": value}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if value == "jax":
        assert done.returncode and "expected 'torch' or None" in done.stderr
    else:
        assert done.stdout.strip() == str(value == "torch"), done.stderr


def test_a_call_has_the_mode_of_its_time_and_a_run_that_of_its_start():
    log, module = [], Scaled()
    module.register_full_backward_hook(
        lambda m, gi, go: log.append((gi[1] is not None, current_task().compat))
    )
    c = gradhook.tensor([3.0], dtype=F64)
    with compat("torch"):
        quirky = module(leaf([1.0]), c).sum()
    plain = module(leaf([1.0]), c).sum()
    quirky.backward()
    with compat("torch"):
        plain.backward()
    assert log == [(True, False), (False, True)]


# ---- what it brings back, and that it is away by default


def test_grad_input_is_zeros_for_a_tensor_without_gradient_integers_too():
    log, module = [], Scaled()
    module.register_full_backward_hook(lambda m, gi, go: log.append(gi[1]))
    with compat("torch"):
        module(leaf([1.0]), gradhook.tensor([3])).sum().backward()
    module(leaf([1.0]), gradhook.tensor([3])).sum().backward()
    assert log[0].dtype is gradhook.int64 and log[0].tolist() == [0] and log[1] is None


@pytest.mark.parametrize("where", ["input", "output", "one of two outputs"])
def test_writes_in_place_at_a_hooked_module_are_refused(where):
    class Writes(nn.Module):
        def forward(self, x):
            y = x.mul_(2) if where == "input" else x * 2
            return (y, x * 3) if where == "one of two outputs" else y

    def run():
        module = Writes()
        module.register_full_backward_hook(lambda m, gi, go: None)
        y = module(leaf([1.0]) * 1)
        (y[0] if isinstance(y, tuple) else y).add_(1)

    with compat("torch"), pytest.raises(RuntimeError) as error:
        run()
    text = "Output 0 of BackwardHookFunctionBackward is a view and is being modified inplace."
    assert str(error.value).startswith(text)
    assert ("multiple views" in str(error.value)) == (where == "one of two outputs")
    run()


@pytest.mark.parametrize("register", ["full_backward", "full_backward_pre"])
def test_no_positional_input_that_requires_grad_warns_each_pass(register):
    module = Scaled()
    getattr(module, f"register_{register}_hook")(lambda *a: None)
    for quirk in (True, False):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with compat("torch" if quirk else None):
                y = module(gradhook.tensor([1.0], dtype=F64), c=leaf([1.0])).sum()
            for _ in range(2):
                y.backward(retain_graph=True)
        found = ["Full backward hook is firing" in str(w.message) for w in caught]
        assert found == [True] * 2 * quirk


def test_a_dict_output_warns_and_fires_nothing():
    class Named(nn.Module):
        def forward(self, x):
            return {"y": x * 2}

    for quirk in (True, False):
        log, module = [], Named()
        module.register_full_backward_hook(lambda m, gi, go, log=log: log.append(1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with compat("torch" if quirk else None):
                module(leaf([1.0]))["y"].sum().backward()
        assert len(caught) == quirk and len(log) == (not quirk)
        assert not quirk or "but received <class 'dict'>" in str(caught[0].message)


def test_a_none_gradient_may_not_be_replaced():
    def run():
        a, b = leaf([1.0, 2.0]).unbind()
        a.register_hook(lambda g: gradhook.ones((), dtype=F64))
        b.backward()

    with compat("torch"), pytest.raises(RuntimeError, match="can't replace a None gradient with a"):
        run()
    run()


def test_post_accumulate_fires_when_nothing_was_accumulated():
    for quirk in (True, False):
        log, x = [], leaf([1.0])
        x.register_post_accumulate_grad_hook(lambda p, log=log: log.append(p.grad))
        y = x * 2
        y.grad_fn.register_hook(lambda gi, go: (None,) * len(gi))
        with compat("torch" if quirk else None):
            y.sum().backward()
        assert log == [None] * quirk


def test_asking_for_a_leaf_whose_gradient_grad_was_asked_for_is_refused():
    from gradhook._C import _will_engine_execute_node

    log, x = [], leaf([1.0])
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    y.register_hook(lambda g: log.append(_will_engine_execute_node(node)))
    gradhook.autograd.grad(y.sum(), x, retain_graph=True)
    assert log == [True]
    with compat("torch"), pytest.raises(RuntimeError, match=r"are currently running autograd.grad"):
        gradhook.autograd.grad(y.sum(), x)
