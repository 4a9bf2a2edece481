"""Saved-tensor hooks of every operation; hooks of one saved tensor (SavedTensor), of Functions."""

from __future__ import annotations

import numpy as np
import pytest
from op_cases import Case, parameters

import gradhook
from gradhook import autograd
from gradhook.autograd.graph import saved_tensors_hooks
from gradhook.autograd.record import ops

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def same(x):
    return x


def tensors(c: Case):
    """The row's inputs, which require grad where they can."""
    found = [None if x is None else gradhook.tensor(np.asarray(x)) for x in c.inputs]
    for k, t in enumerate(found):
        if t is not None and t.dtype.np.kind in "fc" and k not in c.constant:
            t.requires_grad_()
    return found


def gradients(name, c, twice):
    """Of an op's row, first or second order; the tensors that are asked for and their gradients."""
    given = tensors(c)
    found = getattr(ops, name)(*given, **c.attributes)
    outputs = found if isinstance(found, tuple | list) else [found]
    total = sum((abs(o).sum() for o in outputs if o.requires_grad), gradhook.zeros(()))
    asked = [t for t in given if t is not None and t.requires_grad]
    if not total.requires_grad:
        return []
    if twice:
        firsts = autograd.grad(total, asked, create_graph=True, allow_unused=True)
        total = sum((abs(g * g).sum() for g in firsts if g is not None), gradhook.zeros(()))
        if not total.requires_grad:
            return []
    return [g for g in autograd.grad(total, asked, allow_unused=True) if g is not None]


@pytest.mark.parametrize(("name", "c"), parameters())
def test_what_every_operation_saves_goes_through_hooks(name, c):
    counts = [0, 0]

    def pack(t):
        counts[0] += 1
        return t.detach().clone()

    def unpack(t):
        counts[1] += 1
        return t.clone()

    for twice in (False, True):
        expected = gradients(name, c, twice)
        with saved_tensors_hooks(pack, unpack):
            found = gradients(name, c, twice)
        assert [f.tolist() for f in found] == [e.tolist() for e in expected]
    assert counts[0] == 0 or counts[1] > 0


# ---- one saved tensor


def test_a_saved_tensor_takes_one_pair():
    x = leaf([3.0])
    y = x * x
    raw = y.grad_fn._raw_saved_self
    assert isinstance(raw, autograd.SavedTensor)
    raw.register_hooks(lambda t: t * 2, same)
    with pytest.raises(
        RuntimeError, match=r"^Calling register_hooks on a saved tensor whose hooks"
    ):
        raw.register_hooks(same, same)
    y.backward()
    assert x.grad.tolist() == [9]
    with pytest.raises(RuntimeError, match=r"after it has been freed\. Saved intermediate values"):
        raw.register_hooks(same, same)


def test_a_saved_tensor_is_not_made_by_hand():
    with pytest.raises(RuntimeError, match="SavedTensor object from Python is forbidden"):
        autograd.SavedTensor()


def test_a_function_takes_hooks_for_what_it_saved():
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, None, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, nothing, y = ctx.saved_tensors
            assert nothing is None and y.grad_fn is ctx
            return g * 2 * x

    x, seen = leaf([3.0]), []
    with saved_tensors_hooks(lambda t: seen.append(t) or t * 2, lambda t: t / 2):
        y = Square.apply(x)
    assert seen[0] is x and len(seen) == 2
    first, second, _ = Square.apply(x).grad_fn._raw_saved_tensors
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        second.register_hooks(same, same)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        first.register_hooks(same)
    first.register_hooks(same, same)
    y.backward()
    assert x.grad.tolist() == [6]


def test_a_function_gets_back_the_very_tensors_it_saved():
    class Keeps(autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.extend(ctx.saved_tensors)
            return g, None

    x, w, seen = leaf([1.0]), gradhook.ones(3), []
    inner = x * 2
    Keeps.apply(inner, w).backward()
    assert seen[0] is inner and seen[1] is w


# ---- node hooks registered meanwhile


def test_a_post_hook_that_unpack_registers_on_the_running_node_runs_in_this_run():
    x, seen = leaf([0.0]), []

    def unpack(t):
        def hook(grad_inputs, grad_outputs):
            seen.append(grad_outputs)
            return tuple(g * 100 for g in grad_inputs)

        gradhook._C._current_autograd_node().register_hook(hook)
        return t

    with saved_tensors_hooks(same, unpack):
        y = (x * 2).exp()
    y.backward()
    assert x.grad.tolist() == [200] and seen == [(None,)]
