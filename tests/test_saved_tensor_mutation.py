"""allow_mutation_on_saved_tensors: copy on write in the engine (HOOKS.md B15, D20)."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradhook
from gradhook import autograd
from gradhook.autograd.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def write_itself(b):
    b.sin_()


def write_a_view(b):
    b[:1].mul_(10)


def write_through_the_base(b):
    b.mul_(3)


def write_under_no_grad(b):
    with gradhook.no_grad():
        b.fill_(7)


def write_an_item(b):
    b[0] = 5.0


WRITES = [write_itself, write_a_view, write_through_the_base, write_under_no_grad, write_an_item]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("of", [lambda b: b, lambda b: b[:]], ids=["tensor", "view"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_backward_uses_the_values_of_the_time_they_were_saved(write, of, create_graph):
    x = leaf([0.5, 1.5])
    with allow_mutation_on_saved_tensors() as ctx:
        b = x.clone()
        c = of(b)
        out = (c * c).sum()
        write(b)
        assert len(ctx.cloned) == 1
        (g,) = autograd.grad(out, x, create_graph=create_graph)
        assert g.tolist() == [1, 3]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "pair",
    [
        (lambda t: t, lambda t: t),
        (lambda t: {"kept": t}, lambda d: d["kept"]),
        (lambda t: t.clone(), lambda t: t),
    ],
    ids=["same", "in a dict", "copied"],
)
def test_saved_tensor_hooks_inside_keep_the_protection(write, pair):
    x = leaf([0.5, 1.5])
    with allow_mutation_on_saved_tensors():
        b = x.clone()
        with saved_tensors_hooks(*pair):
            out = (b * b).exp().sum()
        write(b)
        out.backward()
    t = x.detach()
    assert x.grad.tolist() == pytest.approx((2 * t * (t * t).exp()).tolist())


def test_a_saved_output_is_protected_with_and_without_hooks():
    for hooks in (False, True):
        x = leaf([0.5])
        with allow_mutation_on_saved_tensors():
            if hooks:
                with saved_tensors_hooks(lambda t: t, lambda t: t):
                    y = x.exp()
            else:
                y = x.exp()
            total = y.sum()
            y.mul_(100)
            total.backward()
        assert x.grad.tolist() == pytest.approx([1.6487212707001282])


def test_a_view_that_pack_made_itself_is_not_protected_but_no_lie_is_told():
    x = leaf([0.5, 1.5])
    with allow_mutation_on_saved_tensors():
        b = x.clone()
        with saved_tensors_hooks(lambda t: t[:], lambda t: t):
            out = (b * b).sum()
        b.mul_(2)
        with pytest.raises(RuntimeError, match=r"^one of the variables needed for gradient"):
            out.backward()


def test_what_is_saved_twice_is_copied_once_and_what_is_no_longer_saved_never():
    with allow_mutation_on_saved_tensors() as ctx:
        a = leaf([1.0]).clone()
        b, c = a**2, a**2
        assert len(ctx.tid_to_weakhandle) == 1
        a.sin_()
        d = a**2
        a.sin_()
        assert len(ctx.cloned) == 2
        del b, c
        assert len(ctx.cloned) == 1
        del d
        assert len(ctx.cloned) == 0
        (a**2).sum().backward()
        a.sin_()
        assert len(ctx.cloned) == 0


def test_the_backward_must_run_inside_the_same_context():
    text = r"^Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
    x = leaf([1.0])
    with allow_mutation_on_saved_tensors():
        out, hooked = x**2, None
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            hooked = x**2
    for y in (out, hooked):
        with pytest.raises(AssertionError, match=text):
            y.backward()
        with allow_mutation_on_saved_tensors(), pytest.raises(AssertionError, match=text):
            y.backward()


def test_contexts_are_not_nested():
    with allow_mutation_on_saved_tensors():
        with (
            pytest.raises(RuntimeError, match="contexts cannot be nested"),
            allow_mutation_on_saved_tensors(),
        ):
            pass
        assert gradhook.modes.get_modes().watch is not None
    assert gradhook.modes.get_modes().watch is None


def test_after_clear_a_write_is_an_error_again():
    x = leaf([1.0])
    with allow_mutation_on_saved_tensors() as ctx:
        b = x.clone()
        out = b * b
        ctx.clear()
        b.mul_(2)
        with pytest.raises(RuntimeError, match=r"^one of the variables needed for gradient"):
            out.backward()


def test_a_function_and_one_saved_tensor_with_hooks_are_protected():
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = leaf([3.0])
    with allow_mutation_on_saved_tensors():
        b = x.clone()
        y, z = Square.apply(b), b.exp()
        w = b * b
        w.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
        b.zero_()
        (y + w + z * 0).backward()
    assert x.grad.tolist() == [12]


def test_nothing_outlives_the_context():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        with allow_mutation_on_saved_tensors() as ctx:
            b = x.clone()
            out = b * b
            b.mul_(2)
            refs = [weakref.ref(ctx), weakref.ref(out.grad_fn)]
        del ctx, out, b
        assert [r() for r in refs] == [None, None]
    finally:
        gc.enable()
