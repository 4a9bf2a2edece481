"""What checkpoints refuse, and that nothing remains after an exception."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradhook
from gradhook import autograd
from gradhook.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
)

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def chain(x):
    return x.sin().exp().sin()


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def switching(first, then):
    calls = [first, then, then, then]
    return lambda x: calls.pop(0)(x)


def two(x):
    return x.sin().exp()


def three(x):
    return x.sin().exp().sin()


def other(x):
    return x.sin() * gradhook.tensor([1.0, 2.0], dtype=F64)


def test_a_recomputation_that_saves_other_tensors_is_an_error():
    x = leaf([0.3])
    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        checkpoint(switching(three, two), x).sum().backward()
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        checkpoint(switching(two, three), x, early_stop=False).sum().backward()
    text = r"tensors have different metadata .*\n.*saved shape \(1,\).*recomputed shape \(2,\)"
    with pytest.raises(RuntimeError, match=text):
        checkpoint(switching(two, other), x).sum().backward()
    checkpoint(switching(two, three), x).backward()  # early stop: what is needed is right


def test_debug_lists_the_operations_of_both():
    x = leaf([0.3])
    text = (
        r"passed `debug=True`.*forward: SinBackward0, ExpBackward0\n.*: SinBackward0, MulBackward0"
    )
    with pytest.raises(CheckpointError, match=text):
        checkpoint(switching(two, other), x, debug=True, early_stop=False).sum().backward()
    with set_checkpoint_debug_enabled(True):
        out = checkpoint(switching(two, other), x)
    with pytest.raises(CheckpointError, match="passed `debug=True`"):
        out.sum().backward()
    with set_checkpoint_debug_enabled(False):
        out = checkpoint(switching(two, other), x, debug=True)
    with pytest.raises(CheckpointError, match="Pass debug=True to checkpoint"):
        out.sum().backward()


def test_no_check_without_determinism_check():
    x = leaf([0.3])
    out = checkpoint(switching(three, two), x, determinism_check="none")
    with pytest.raises(CheckpointError, match="already unpacked once"):
        out.sum().backward()
    with pytest.raises(
        ValueError, match="determinism_check: found 'x', expected 'default' or 'none'"
    ):
        checkpoint(chain, x, determinism_check="x")


def test_an_input_written_in_place_after_the_call_is_an_error():
    x = leaf([0.3]).clone()
    out = checkpoint(chain, x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match=r"^one of the variables needed for gradient"):
        out.backward()


def test_a_value_that_the_function_writes_in_place_later_is_an_error():
    def fn(x):
        y = x.sin()
        z = y.exp() * y
        y.mul_(3)
        return z.sin() + y

    with pytest.raises(RuntimeError, match=r"^one of the variables needed for gradient"):
        checkpoint(fn, leaf([0.3])).backward()


def test_saved_tensors_may_be_asked_for_once_a_run():
    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors  # noqa: B018
            ctx.saved_tensors  # noqa: B018

    with pytest.raises(
        CheckpointError, match="Unpack is being triggered for a tensor that was alr"
    ):
        checkpoint(lambda x: Twice.apply(x * 2), leaf([0.3])).backward()


def test_the_reentrant_form_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"use_reentrant=True is not supported.*Leave it out"):
        checkpoint(chain, leaf([0.3]), use_reentrant=True)
    with pytest.raises(ValueError, match="use_reentrant=True is not supported"):
        checkpoint_sequential([chain, chain], 2, leaf([0.3]), use_reentrant=True)


@pytest.mark.parametrize("where", ["forward", "recomputation", "backward"])
def test_after_an_exception_nothing_remains(where, no_gc):
    class Big:
        pass

    refs, calls = [], [0]

    def fn(x):
        calls[0] += 1
        y = x.sin()
        big = y.big = Big()
        refs.append(weakref.ref(big))
        if (where, calls[0]) in (("forward", 1), ("recomputation", 2)):
            raise KeyError(where)
        z = y.exp()
        if where == "backward":
            z.register_hook(lambda g: {}["no"])
        return z.sin()

    def run():
        x = leaf([0.3])
        with pytest.raises(KeyError):
            out = checkpoint(fn, x)
            refs.append(weakref.ref(out.grad_fn))
            out.backward()

    state = gradhook.get_rng_state()["bits"]
    run()
    assert len(refs) > 0 and [r() for r in refs] == [None] * len(refs)
    assert gradhook.modes.get_modes().watch is None
    assert gradhook.get_rng_state()["bits"] == state
