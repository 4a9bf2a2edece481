"""Tensor hooks: when, in which order, with what."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import autograd

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def values(g):
    return None if g is None else g.tolist()


# ---- order


def test_everything_at_one_node_fires_in_the_promised_order():
    x, log = leaf([1.0]), []
    y = x * 2
    node = y.grad_fn
    node.register_hook(lambda gi, go: log.append(("post", values(gi[0]), values(go[0]))))
    node.register_prehook(lambda go: log.append(("pre", values(go[0]))) or (go[0] * 10,))
    y.retain_grad()
    y.register_hook(lambda g: log.append(("first", values(g))) or g + 1)
    y.register_hook(lambda g: log.append(("second", values(g))) or g + 2)
    y.sum().backward()
    assert log == [
        ("first", [1]),
        ("second", [2]),
        ("pre", [4]),
        ("post", [80], [40]),
    ]
    assert y.grad.tolist() == [4] and x.grad.tolist() == [80]


def test_everything_at_a_leaf_fires_in_the_promised_order():
    x, log = leaf([1.0]), []
    accumulator = (x * 1).grad_fn.next_functions[0][0]
    accumulator.register_hook(
        lambda gi, go: log.append(("post", gi, values(go[0]), values(x.grad)))
    )
    accumulator.register_prehook(lambda go: log.append(("pre", values(go[0]), values(x.grad))))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", values(p.grad))))
    x.register_hook(lambda g: log.append(("tensor", values(g), values(x.grad))))
    (x * 3).sum().backward()
    assert log == [
        ("tensor", [3], None),
        ("pre", [3], None),
        ("accumulated", [3]),
        ("post", (), [3], [3]),
    ]


# ---- register_hook


def test_a_hook_sees_the_sum_of_one_run_and_fires_once_a_run():
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    y = (x * 2 + x * 3 + x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert seen == [[6], [6]] and x.grad.tolist() == [12]


def test_a_hook_replaces_the_gradient_and_later_hooks_see_that():
    x, seen = leaf([1.0]), []
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    (gx,) = autograd.grad(y.sum(), [x])
    assert seen == [[10]] and gx.tolist() == [20]


def test_a_hook_fires_for_a_tensor_that_is_only_captured():
    x, log = leaf([1.0]), []
    y = x * 2
    y.register_hook(lambda g: log.append("hook"))
    y.grad_fn.register_prehook(lambda g: log.append("pre"))
    x.register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
    autograd.grad(y.sum(), [y], retain_graph=True)
    assert log == ["hook"]
    autograd.grad(y.sum(), [x])
    assert log == ["hook", "hook", "pre"]


def test_a_hook_registered_after_forward_and_on_a_tensor_that_died_fires():
    x, log = leaf([1.0]), []
    y = x * 2
    z = y.sum()
    y.register_hook(lambda g: log.append("late"))
    del y
    z.backward()
    assert log == ["late"]


def test_a_hook_on_an_output_that_got_nothing_gets_none():
    x, seen = leaf([1.0, 2.0]), []
    a, b = x.unbind()
    b.register_hook(lambda g: seen.append(g))
    a.backward()
    assert seen == [None]


def test_a_hook_is_not_called_when_no_gradient_reaches_its_node():
    x, log = leaf([1.0]), []
    y = x * 2
    y.register_hook(lambda g: log.append(g))
    (x * 3).sum().backward()
    assert log == []


def test_hooks_survive_switching_requires_grad_off_and_on():
    x, log = leaf([1.0]), []
    x.register_hook(lambda g: log.append(values(g)))
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 2).sum().backward()
    assert log == [[2]]


def test_hooks_outlive_an_in_place_write_with_the_old_version():
    x, log = leaf([1.0]), []
    y = x * 2
    y.register_hook(lambda g: log.append(("old", values(g))))
    y.mul_(5)
    y.register_hook(lambda g: log.append(("new", values(g))))
    y.sum().backward()
    assert log == [("new", [1]), ("old", [5])]


def test_registering_on_a_stale_view_attaches_to_its_present_version():
    # PyTorch 2.13 dies of a segmentation fault here (HOOKS.md B0.6)
    x, log = leaf([1.0, 2.0]), []
    base = x * 1
    v = base[:1]
    base.mul_(3)
    v.register_hook(lambda g: log.append(values(g)))
    (v * 7).sum().backward()
    assert log == [[7]] and x.grad.tolist() == [21, 0]


def test_a_hook_removed_while_firing_still_fires_this_time_and_one_added_fires_next_time():
    x, log, handles = leaf([1.0]), [], {}

    def first(g):
        log.append("first")
        handles["second"].remove()
        if len(log) < 3:
            x.register_hook(lambda g: log.append("added"))

    x.register_hook(first)
    handles["second"] = x.register_hook(lambda g: log.append("second"))
    y = (x * 1).sum()
    y.backward(retain_graph=True)
    assert log == ["first", "second"]
    y.backward(retain_graph=True)
    assert log == ["first", "second", "first", "added"]


def test_a_removed_hook_fires_no_more_and_remove_may_be_called_again():
    x, log = leaf([1.0]), []
    handle = x.register_hook(lambda g: log.append("hook"))
    handle.remove()
    handle.remove()
    with x.register_hook(lambda g: log.append("with")):
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert log == ["with"] and not x._backward_hooks


def test_the_tensor_shows_its_hooks_by_id():
    x = leaf([1.0])
    assert x._backward_hooks is None

    def hook(g):
        return None

    handle = x.register_hook(hook)
    assert dict(x._backward_hooks) == {handle.id: hook}


def test_under_create_graph_what_a_hook_does_is_differentiated():
    x = leaf([3.0])
    y = x * x
    y.register_hook(lambda g: g * y)
    (g,) = autograd.grad(y.sum(), [x], create_graph=True)
    assert g.tolist() == [54] and g.requires_grad  # y * 2x
    # y gets 2x = 6 in the second run, which its hook makes 54: 54 * 2x, and 2y of the other way
    assert autograd.grad(g.sum(), [x])[0].tolist() == [342]


def test_without_create_graph_a_returned_tensor_that_requires_grad_is_detached():
    x, w = leaf([3.0]), leaf([2.0])
    with gradhook.enable_grad():
        x.register_hook(lambda g: w * 5)
    (x * 1).sum().backward()
    assert x.grad.tolist() == [10] and not x.grad.requires_grad


def test_hooks_on_a_gradients_own_graph_fire_in_double_backward():
    x, log = leaf([3.0]), []
    (g,) = autograd.grad((x * x * x).sum(), [x], create_graph=True)
    g.register_hook(lambda h: log.append(values(h)))
    g.sum().backward()
    assert log == [[1]] and x.grad.tolist() == [18]


# ---- what a hook may not return


@pytest.mark.parametrize(
    "returned, error, text",
    [
        (5, TypeError, "^expected Variable, but hook returned 'int'"),
        ((1, 2), TypeError, "^expected Variable, but hook returned 'tuple'"),
        (
            lambda: gradhook.ones(2, dtype=F64),
            RuntimeError,
            "^hook 'h' has changed the size of value",
        ),
        (
            lambda: gradhook.ones(1),
            RuntimeError,
            r"^hook 'h' has changed the type of value \(was gradhook.DoubleTensor got",
        ),
    ],
    ids=["int", "tuple", "size", "type"],
)
def test_a_wrong_result_is_refused_by_name(returned, error, text):
    x = leaf([1.0])

    def h(g):
        return returned() if callable(returned) else returned

    x.register_hook(h)
    with pytest.raises(error, match=text):
        (x * 1).sum().backward()
    assert x.grad is None


def test_a_hook_without_a_name_is_called_unknown():
    class Unnamed:
        def __call__(self, g):
            return gradhook.ones(7)

    x = leaf([1.0])
    x.register_hook(Unnamed())
    with pytest.raises(RuntimeError, match=r"^hook '<unknown>' has changed the size"):
        (x * 1).sum().backward()


def test_registration_is_refused_without_grad_and_for_what_is_not_callable():
    with pytest.raises(
        RuntimeError, match=r"^cannot register a hook on a tensor that doesn't require gradient"
    ):
        gradhook.ones(1).register_hook(print)
    with pytest.raises(TypeError, match=r"not callable"):
        leaf([1.0]).register_hook(5)


def test_an_error_in_a_hook_reaches_the_caller_with_a_note():
    x = leaf([1.0])
    y = x.exp()
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        y.sum().backward()
    assert any("ExpBackward0" in note for note in caught.value.__notes__)


def test_retain_grad_follows_a_view_when_a_sibling_is_written():
    base = leaf([1.0]).clone()
    view, sibling = base[:], base[:]
    view.retain_grad()
    sibling.retain_grad()
    view.mul_(2)
    (view * 3 + sibling * 5).sum().backward()
    assert view.grad.tolist() == [3] and sibling.grad.tolist() == [5]
