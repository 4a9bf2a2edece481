"""autograd.Function: what backward and forward may return, errors, life."""

from __future__ import annotations

import gc
import pickle
import weakref

import pytest

import gradhook
from gradhook.autograd import Function

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


# ---- what backward returns


def returning(*values):
    class Returns(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return values

    return Returns


@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_wrong_number_of_gradients_is_refused(count):
    g = gradhook.ones(1, dtype=F64)
    y = returning(*[g] * count).apply(leaf([1.0]), leaf([1.0]))
    with pytest.raises(
        RuntimeError, match=r"returned an incorrect number of gradients \(expected 2"
    ):
        y.sum().backward()


def test_superfluous_nones_at_the_end_are_allowed():
    g, x = gradhook.ones(1, dtype=F64), leaf([1.0])
    returning(g, None, None, None).apply(x, 5).sum().backward()
    assert x.grad.tolist() == [1]


def test_a_gradient_that_is_no_tensor_is_refused():
    y = returning(5, None).apply(leaf([1.0]), None)
    with pytest.raises(TypeError, match=r"expected Variable or None \(got int\)"):
        y.sum().backward()


def test_a_gradient_of_another_shape_is_refused_and_one_that_broadcasts_is_summed():
    y = returning(gradhook.ones(3, dtype=F64), None).apply(leaf([1.0, 2.0]), None)
    with pytest.raises(RuntimeError, match=r"shape"):
        y.sum().backward()
    x = leaf([1.0, 2.0])
    returning(gradhook.ones(3, 2, dtype=F64), None).apply(x, None).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_none_for_an_input_that_needs_a_gradient_leaves_it_none():
    x = leaf([1.0])
    returning(None, None).apply(x, None).sum().backward()
    assert x.grad is None


# ---- outputs


class Identity(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_an_input_returned_as_it_came_is_another_object_with_a_history():
    x = leaf([1.0])
    y = Identity.apply(x)
    assert y is not x and y.grad_fn.name() == "IdentityBackward" and x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [2]


def test_an_input_returned_as_it_came_is_not_written_in_place():
    y = Identity.apply(leaf([1.0]) * 1)
    with pytest.raises(
        RuntimeError,
        match=r"is a view and is being modified inplace. This view was "
        "created inside a custom Function",
    ):
        y.add_(1)


def test_a_fresh_result_can_be_written_in_place():
    x = leaf([2.0])
    y = Cube.apply(x)
    y.mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [120]


class First(Function):
    @staticmethod
    def forward(ctx, x):
        return x[:1]

    @staticmethod
    def backward(ctx, g):
        return gradhook.cat([g, g * 0])


def test_a_view_returned_from_forward_is_not_written_in_place():
    x = leaf([1.0, 2.0])
    y = First.apply(x * 1)
    with pytest.raises(RuntimeError, match=r"is a view and is being modified inplace"):
        y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [1, 0]


@pytest.mark.parametrize("function", [Identity, First])
def test_a_view_returned_from_forward_does_not_follow_its_base_silently(function):
    h = leaf([1.0, 2.0]) * 1
    y = function.apply(h)
    h.mul_(2)
    with pytest.raises(
        RuntimeError, match=r"is a view and its base or another view of its base has"
    ):
        y.sum().backward()


def test_a_tuple_a_list_and_other_values_come_back_as_they_are():
    class Several(Function):
        @staticmethod
        def forward(ctx, x, kind):
            return kind([x * 1, "text", None, x * 2])

        @staticmethod
        def backward(ctx, *grads):
            return sum(g for g in grads if g is not None), None

    for kind in (tuple, list):
        x = leaf([1.0])
        out = Several.apply(x, kind)
        assert type(out) is kind and out[1:3] == kind(["text", None])
        (out[0] + out[3]).sum().backward()
        assert x.grad.tolist() == [2]


def test_an_output_that_is_no_tensor_has_its_slot_in_backward_and_in_node_hooks():
    class Three(Function):
        @staticmethod
        def forward(ctx, x, text):
            second = x * 3
            ctx.save_for_backward(second)
            return x * 2, text, second

        @staticmethod
        def backward(ctx, first, text, second):
            seen.append((first.tolist(), text, second.tolist(), ctx.saved_tensors[0].tolist()))
            return first * 2 + second * 3, None

    x, seen, at_the_node = leaf([1.0]), [], []
    first, _, second = Three.apply(x, "text")
    assert (first.output_nr, second.output_nr) == (0, 2)
    second.grad_fn.register_prehook(lambda g: at_the_node.append([h is None for h in g]))
    (first + second).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [5] and seen == [([1], None, [1], [3])]
    second.sum().backward(retain_graph=True)  # of the other tensor zeros, of the text still None
    assert seen[1] == ([0], None, [1], [3])
    assert at_the_node == [[False, True, False], [True, True, False]]
    second.grad_fn.register_prehook(lambda g: (g[0], gradhook.ones(1), g[2]))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        second.sum().backward()


def test_under_no_grad_and_without_inputs_that_need_it_nothing_is_recorded():
    x = leaf([1.0])
    with gradhook.no_grad():
        assert Cube.apply(x).grad_fn is None
    assert Cube.apply(gradhook.ones(1)).grad_fn is None
    assert not Identity.apply(gradhook.ones(1)).requires_grad


# ---- errors, life


def test_an_error_in_forward_restores_the_mode_and_one_in_backward_names_the_function():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x, early):
            if early:
                raise KeyError("forward")
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("backward")

    with pytest.raises(KeyError, match=r"forward"):
        Fails.apply(leaf([1.0]), True)
    assert gradhook.is_grad_enabled()
    with pytest.raises(KeyError, match=r"backward") as caught:
        Fails.apply(leaf([1.0]), False).sum().backward()
    assert any("FailsBackward" in note for note in caught.value.__notes__)


def test_a_function_without_backward_or_forward_says_so():
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with pytest.raises(
        NotImplementedError, match=r"^You must implement either the backward or vjp"
    ):
        Half.apply(leaf([1.0])).sum().backward()
    with pytest.raises(NotImplementedError, match=r"^You must implement the forward function"):
        type("None_", (Function,), {}).apply(leaf([1.0]))
    with pytest.raises(RuntimeError, match=r"should not be instantiated"):
        Cube()


def test_node_hooks_of_a_function_see_every_input():
    seen = []
    x = leaf([1.0])
    y = returning(gradhook.ones(1, dtype=F64), None).apply(x, 5)
    y.grad_fn.register_hook(lambda gi, go: seen.append((len(gi), gi[1], go[0].tolist())))
    y.sum().backward()
    assert seen == [(2, None, [1])]


def test_ctx_and_what_it_saved_die_by_reference_counting():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        y = Cube.apply(x)
        y.grad_fn.note = note = Cube.__new__(Cube)  # a user's attribute
        dead = [weakref.ref(y.grad_fn), weakref.ref(note)]
        del y, note
        assert [r() for r in dead] == [None, None]
    finally:
        gc.enable()


def test_a_saved_output_makes_no_cycle():
    class Sqrt(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.sqrt()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g / (2 * ctx.saved_tensors[0])

    gc.collect()
    gc.disable()
    try:
        y = Sqrt.apply(leaf([4.0]))
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_function_class_pickles_by_name():
    assert pickle.loads(pickle.dumps(Cube)) is Cube
