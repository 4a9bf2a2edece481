"""saved_tensors_hooks, disable_saved_tensors_hooks (HOOKS.md B15, D19)."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradhook
from gradhook import autograd
from gradhook.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def same(x):
    return x


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- what pack gets, what unpack gives


def test_pack_gets_the_saved_input_itself_and_an_output_without_history():
    x, seen = leaf([1.0, 2.0]), []
    with saved_tensors_hooks(lambda t: seen.append(t) or t, same):
        y = x * x
        z = y.exp()
    assert seen[0] is x and seen[1] is x
    assert seen[2].tolist() == z.tolist() and not seen[2].requires_grad
    z.sum().backward()
    assert x.grad.tolist() == pytest.approx((2 * x * z).tolist())


def test_what_unpack_gives_is_what_the_backward_uses():
    x = leaf([1.0, 2.0])
    with saved_tensors_hooks(lambda t: t * 10, same):
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [20, 40]


def test_unpack_is_called_once_a_run_and_pack_once():
    x, log = leaf([2.0]), []
    with saved_tensors_hooks(
        lambda t: log.append("pack") or t, lambda t: log.append("unpack") or t
    ):
        y = x.sin()
    y.backward(retain_graph=True)
    y.backward()
    assert log == ["pack", "unpack", "unpack"]


def test_numbers_are_not_packed():
    def never(t):
        raise AssertionError("a number")

    x = leaf([1.0])
    with saved_tensors_hooks(never, never):
        y = (x * 3 / 2 + 1).sum()
    y.backward()
    assert x.grad.tolist() == [1.5]


def test_pack_runs_without_recording_and_unpack_in_the_mode_of_the_run():
    x, modes = leaf([2.0]), []

    def unpack(t):
        modes.append(gradhook.is_grad_enabled())
        return t

    with saved_tensors_hooks(lambda t: modes.append(gradhook.is_grad_enabled()) or t, unpack):
        y = x.sin()
    y.backward(retain_graph=True)
    y.backward(create_graph=True)
    assert modes == [False, False, True]


def test_the_graph_is_differentiated_twice_through_hooks():
    x = leaf([2.0])
    with saved_tensors_hooks(lambda t: t.tolist(), lambda v: gradhook.tensor(v, dtype=F64)):
        y = (x * x * x).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    (gg,) = autograd.grad(g.sum(), x)
    assert (g.tolist(), gg.tolist()) == ([12], [12])


def test_operations_inside_hooks_save_without_hooks():
    x, n = leaf([1.0, 3.0]), [0]

    def pack(t):
        n[0] += 1
        with gradhook.enable_grad():
            return (leaf([1.0, 1.0]).exp() * 0 + t.exp()).detach().log()

    with saved_tensors_hooks(pack, lambda t: (t * 2).exp().log() / 2):
        y = x * x
        y.sum().backward()
    assert n[0] == 2 and x.grad.tolist() == pytest.approx([2, 6])


def test_a_saved_leaf_comes_back_as_the_same_object():
    x = leaf([1.0])
    y = x * x
    assert y.grad_fn._saved_x is x and y.grad_fn._saved_self is x
    with saved_tensors_hooks(same, same):
        y = x * x
    assert y.grad_fn._saved_other is x


# ---- nesting


def test_only_the_innermost_pair_applies():
    x = leaf([1.0])
    with saved_tensors_hooks(lambda t: t * 3, same), saved_tensors_hooks(lambda t: t * 5, same):
        y = x * x
    y.backward()
    assert x.grad.tolist() == [10]


def test_composed_pairs_pack_inside_out_and_unpack_outside_in():
    x, log = leaf([1.0]), []

    def pair(name, factor):
        return (
            lambda t: log.append(f"pack {name}") or t * factor,
            lambda t: log.append(f"unpack {name}") or t / factor,
        )

    with (
        saved_tensors_hooks(*pair("outer", 2)),
        saved_tensors_hooks(*pair("inner", 4), compose=True),
    ):
        y = x.sin()
        packed = y.grad_fn._saved_x
    assert packed.tolist() == [1]
    assert log == ["pack inner", "pack outer", "unpack outer", "unpack inner"]
    y.backward()
    assert x.grad.tolist() == pytest.approx([0.5403023058681398])


def test_composition_needs_a_tensor_between_the_pairs():
    x = leaf([1.0])
    with (
        saved_tensors_hooks(same, same),
        saved_tensors_hooks(lambda t: t.tolist(), same, compose=True),
        pytest.raises(TypeError, match=r"compose=True\) returned list, expected a Tensor"),
    ):
        x.sin()


def test_hooks_end_with_their_block_also_after_an_exception():
    x, n = leaf([1.0]), [0]
    with pytest.raises(KeyError), saved_tensors_hooks(lambda t: n.append(1) or t, same):
        raise KeyError
    x.sin().backward()
    assert n == [0]


# ---- errors


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_write_in_place_after_saving_is_an_error_under_hooks_too(create_graph):
    x = leaf([1.0])
    y = x * 2
    with saved_tensors_hooks(same, same):
        z = y * y
    y.mul_(10)
    with pytest.raises(RuntimeError, match=r"^one of the variables needed .*version 1; expected"):
        z.sum().backward(create_graph=create_graph)


def test_a_write_does_not_hurt_what_hooks_copied():
    x = leaf([1.0])
    y = x * 2
    with saved_tensors_hooks(lambda t: t.clone(), same):
        z = y * y
    y.mul_(10)
    z.sum().backward()
    assert x.grad.tolist() == [8]


@pytest.mark.parametrize(
    ("unpack", "found"),
    [
        (lambda t: t[:1], r"got shape \(1,\) gradhook.float64"),
        (lambda t: t.float(), r"got shape \(3,\) gradhook.float32"),
        (lambda t: t.reshape(3, 1), r"got shape \(3, 1\) gradhook.float64"),
    ],
)
def test_unpack_must_give_a_tensor_that_fits(unpack, found):
    x = leaf([1.0, 2.0, 3.0])
    with saved_tensors_hooks(same, unpack):
        y = x.sin()
    with pytest.raises(RuntimeError, match=r"expected shape \(3,\) gradhook.float64.*" + found):
        y.sum().backward()


def test_unpack_must_give_a_tensor():
    x = leaf([1.0])
    with saved_tensors_hooks(same, lambda t: 5):
        y = x.sin()
    text = r"^Output of saved tensor unpack_hook expected to be a Tensor but got result of type int"
    with pytest.raises(TypeError, match=text):
        y.backward()


def test_pack_must_not_write_its_input():
    x = leaf([1.0])
    text = r"^A saved tensor pack hook is modifying its input in place\."
    with saved_tensors_hooks(lambda t: t.mul_(2), same), pytest.raises(RuntimeError, match=text):
        x.exp()
    y = x.exp()
    with pytest.raises(RuntimeError, match=text):
        y.grad_fn._raw_saved_out.register_hooks(lambda t: t.mul_(2), same)


@pytest.mark.parametrize("pair", [(1, same), (same, None)])
def test_hooks_must_be_callable(pair):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        saved_tensors_hooks(*pair)


def test_errors_of_hooks_reach_the_caller_and_leave_nothing(no_gc):
    class Mine(Exception):
        pass

    def fail(t):
        raise Mine

    x = leaf([1.0])
    with saved_tensors_hooks(fail, same), pytest.raises(Mine):
        x.sin()
    with saved_tensors_hooks(same, fail):
        y = x.sin()
    node = weakref.ref(y.grad_fn)
    with pytest.raises(Mine):
        y.backward()
    del y
    assert node() is None
    x.sin().backward()


# ---- lives


@pytest.mark.parametrize("raises", [False, True])
def test_nothing_outlives_the_graph(no_gc, raises):
    class Kept:
        pass

    refs = []

    def pack(t):
        kept = Kept()
        kept.t = t
        refs.append(weakref.ref(kept))
        return kept

    def unpack(kept):
        if raises:
            raise ValueError
        return kept.t

    def run():
        x = leaf([1.0, 2.0])
        with saved_tensors_hooks(pack, unpack):
            y = (x * x).exp()  # exp saves its own output
        refs.append(weakref.ref(y.grad_fn))
        try:
            y.sum().backward()
        except ValueError:
            pass

    run()
    assert len(refs) == 4 and [r() for r in refs] == [None] * 4


def test_hooks_entered_by_an_unpack_hook_do_not_stay(no_gc):
    inner = saved_tensors_hooks(same, same)
    x = leaf([1.0])
    with saved_tensors_hooks(same, lambda t: inner.__enter__() and t):
        x.sin().backward()
        assert x.sin().grad_fn._saved_x is x
    assert gradhook.modes.get_modes().watch is None


def test_leaving_more_often_than_entering_is_harmless():
    hooks = saved_tensors_hooks(same, same)
    hooks.__exit__()
    with hooks:
        hooks.__exit__()
    assert gradhook.modes.get_modes().watch is None


# ---- disable


def test_hooks_can_be_refused_with_a_message():
    with disable_saved_tensors_hooks("outer"):
        with disable_saved_tensors_hooks("inner"):
            with pytest.raises(RuntimeError, match="inner"), saved_tensors_hooks(same, same):
                pass
        with pytest.raises(RuntimeError, match="outer"), saved_tensors_hooks(same, same):
            pass
    with saved_tensors_hooks(same, same):
        with pytest.raises(RuntimeError, match="late"), disable_saved_tensors_hooks("late"):
            pass
        assert gradhook.modes.get_modes().watch is not None
