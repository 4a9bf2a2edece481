"""autograd.Function: a user's forward and backward as one node."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import autograd
from gradhook.autograd import Function, once_differentiable

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


class Cube(Function):
    """The form with ctx in forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class CubeWithContext(Function):
    """The form with setup_context."""

    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


@pytest.mark.parametrize("function", [Cube, CubeWithContext])
def test_both_forms_give_gradients_of_any_order(function):
    x = leaf([2.0, 3.0])
    y = function.apply(x)
    assert y.tolist() == [8, 27] and y.grad_fn.name() == f"{function.__name__}Backward"
    (g,) = autograd.grad(y.sum(), [x], create_graph=True)
    (h,) = autograd.grad(g.sum(), [x], create_graph=True)
    (third,) = autograd.grad(h.sum(), [x])
    assert g.tolist() == [12, 27] and h.tolist() == [12, 18] and third.tolist() == [6, 6]


@pytest.mark.parametrize("function", [Cube, CubeWithContext])
def test_both_forms_pass_gradcheck(function):
    x = leaf([0.3, -1.2])
    assert autograd.gradcheck(function.apply, (x,)) and autograd.gradgradcheck(function.apply, (x,))


def test_forward_runs_without_recording_and_gets_the_very_arguments():
    seen = []

    class Sees(Function):
        @staticmethod
        def forward(ctx, x, factor, name=None):
            seen.append((x, gradhook.is_grad_enabled(), factor, name))
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    x = leaf([1.0])
    Sees.apply(x, 3, "n")
    assert seen[0][0] is x and seen[0][1:] == (False, 3, "n") and gradhook.is_grad_enabled()


def test_needs_input_grad_says_which_arguments_need_one():
    seen = []

    class Needs(Function):
        @staticmethod
        def forward(ctx, *args):
            seen.append(ctx.needs_input_grad)
            return args[0] * args[2]

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g * 1, None, None

    x = leaf([1.0])
    Needs.apply(x, 3, gradhook.ones(1, dtype=F64)).sum().backward()
    assert seen == [(True, False, False)] * 2 and x.grad.tolist() == [1]


def test_inputs_outputs_intermediates_and_none_can_be_saved():
    class Saves(Function):
        @staticmethod
        def forward(ctx, x):
            middle = x + 1
            out = middle.exp()
            ctx.save_for_backward(x, None, middle, out)
            return out

        @staticmethod
        def backward(ctx, g):
            x, nothing, middle, out = ctx.saved_tensors
            assert nothing is None
            np.testing.assert_array_equal(middle.cpu().numpy(), x.detach().cpu().numpy() + 1)
            return g * out

    x = leaf([0.5])
    Saves.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.exp([1.5]))


def test_a_saved_output_keeps_its_history_in_double_backward():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf([0.5])
    (g,) = autograd.grad(Exp.apply(x).sum(), [x], create_graph=True)
    (h,) = autograd.grad(g.sum(), [x])
    np.testing.assert_allclose(h.cpu().numpy(), np.exp([0.5]))


def test_saving_what_is_no_tensor_is_refused():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x * 1

    with pytest.raises(TypeError, match=r"save_for_backward can only save variables, but argument"):
        Wrong.apply(leaf([1.0]))


def test_saved_tensors_are_freed_and_a_second_backward_is_refused():
    x = leaf([1.0])
    y = Cube.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert x.grad.tolist() == [6]
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        y.sum().backward()


def test_a_saved_tensor_written_in_place_is_stale():
    x = leaf([1.0]) * 1
    y = Cube.apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        y.sum().backward()


# ---- mark_dirty, mark_non_differentiable, materialize


class AddInPlace(Function):
    @staticmethod
    def forward(ctx, x, y):
        x.add_(y)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 1, g * 2  # a mark of its own


def test_a_dirty_input_is_returned_as_the_same_object_with_the_new_history():
    x, y = leaf([1.0]), leaf([5.0])
    h = x * 1
    out = AddInPlace.apply(h, y)
    assert out is h and h.tolist() == [6] and h.grad_fn.name() == "AddInPlaceBackward"
    assert h._version == 1
    h.sum().backward()
    assert x.grad.tolist() == [1] and y.grad.tolist() == [2]


def test_a_dirty_view_rebases_its_base():
    x, y = leaf([1.0, 2.0]), leaf([5.0])
    base = x * 1
    AddInPlace.apply(base[:1], y)
    (base * gradhook.tensor([10.0, 20.0], dtype=F64)).sum().backward()
    assert base.tolist() == [6, 2] and x.grad.tolist() == [10, 20] and y.grad.tolist() == [20]


def test_a_dirty_leaf_or_view_of_one_or_of_several_is_refused():
    y = leaf([2.0])
    with pytest.raises(RuntimeError, match=r"^a leaf Variable that requires grad"):
        AddInPlace.apply(leaf([1.0]), y)
    with pytest.raises(RuntimeError, match=r"^a view of a leaf Variable that requires grad"):
        AddInPlace.apply(leaf([1.0, 2.0])[:1], y)
    with pytest.raises(RuntimeError, match=r"function that returns multiple views"):
        AddInPlace.apply((leaf([1.0, 2.0]) * 1).split(1)[0], y)


def test_retain_grad_follows_a_dirty_input():
    x, y = leaf([1.0]), leaf([5.0])
    h = x * 3
    h.retain_grad()
    AddInPlace.apply(h, y)
    (h * 7).sum().backward()
    assert h.grad.tolist() == [7] and x.grad.tolist() == [21]


def test_a_dirty_input_that_is_not_returned_is_refused():
    class Loses(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 1

    with pytest.raises(RuntimeError, match=r"^Some elements marked as dirty during the forward"):
        Loses.apply(leaf([1.0]) * 1)


class SortLike(Function):
    @staticmethod
    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        order = gradhook.argsort(x)
        flags = x * 0
        ctx.mark_non_differentiable(flags)
        ctx.save_for_backward(order)
        return x * 2, flags, order, x * 3

    @staticmethod
    def backward(ctx, *grads):
        ctx.grads_seen.append(grads)
        return (grads[0] if grads[0] is not None else grads[3]) * 2, None


def test_non_differentiable_outputs_require_no_grad_and_backward_gets_their_slots():
    x, seen = leaf([2.0, 1.0]), []
    a, flags, order, b = SortLike.apply(x, True)
    a.grad_fn.grads_seen = seen
    assert [t.requires_grad for t in (a, flags, order, b)] == [True, False, False, True]
    a.sum().backward()
    (grads,) = seen
    assert len(grads) == 4 and grads[0].tolist() == [1, 1]
    assert all(g.tolist() == [0, 0] for g in grads[1:])


def test_without_materialize_backward_gets_none():
    x, seen = leaf([2.0, 1.0]), []
    a, _, _, b = SortLike.apply(x, False)
    a.grad_fn.grads_seen = seen
    b.sum().backward()
    assert [None if g is None else g.tolist() for g in seen[0]] == [None, None, None, [1, 1]]
    assert x.grad.tolist() == [2, 2]


# ---- once_differentiable


def test_a_once_differentiable_backward_is_refused_the_second_time():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not gradhook.is_grad_enabled()
            return g * 2 * ctx.saved_tensors[0]

    x = leaf([3.0])
    Once.apply(x).sum().backward()
    assert x.grad.tolist() == [6]
    (g,) = autograd.grad((Once.apply(x) * x).sum(), [x], create_graph=True)
    assert g.tolist() == [27]
    with pytest.raises(RuntimeError, match=r"^trying to differentiate twice a function that was"):
        g.sum().backward()


@pytest.mark.parametrize("name", ["shape", "dtype", "metas", "dirty", "function", "slot"])
def test_ctx_takes_any_attribute(name):
    class Scale(gradhook.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            setattr(ctx, name, 3.0)
            return x * 3.0

        @staticmethod
        def backward(ctx, g):
            return g * getattr(ctx, name)

    x = gradhook.ones(2, requires_grad=True)
    Scale.apply(x).sum().backward()
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("name", ["edges", "saved", "hooks", "seq", "leaf", "multi"])
def test_an_attribute_of_ctx_that_would_hide_the_nodes_own_is_refused(name):
    class Scale(gradhook.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            setattr(ctx, name, x)
            return x * 3.0

    x = gradhook.ones(2, requires_grad=True)
    with pytest.raises(AttributeError, match=rf"Scale: ctx.{name} is the node's own attribute"):
        Scale.apply(x)
