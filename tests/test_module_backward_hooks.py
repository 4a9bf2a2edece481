"""Full backward hooks of modules: values, replacements, errors."""

from __future__ import annotations

from collections import namedtuple

import pytest

import gradhook
from gradhook import nn
from gradhook.hooks import HookNotFiringWarning

F64 = gradhook.float64
Pair = namedtuple("Pair", "first second")


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def shown(value):
    """Gradients as plain lists, in the containers they came in."""
    if isinstance(value, gradhook.Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return tuple(shown(v) for v in value)
    if isinstance(value, list):
        return [shown(v) for v in value]
    return {k: shown(v) for k, v in value.items()} if isinstance(value, dict) else value


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


@pytest.fixture
def seen():
    return []


def watched(function, seen):
    module = Lambda(function)
    module.register_full_backward_hook(lambda m, gi, go: seen.append((shown(gi), shown(go))))
    return module


# ---- values


@pytest.mark.parametrize("observe", [False, True])
def test_an_input_used_twice_and_an_output_used_twice_are_summed(observe, seen):
    module = watched(lambda x: x + x**2, seen) if observe else Lambda(lambda x: x + x**2)
    x = leaf(3.0)
    y = module(x)
    z = y + gradhook.relu(y)
    z.backward(retain_graph=True)
    assert x.grad.item() == 14
    z.backward()
    assert x.grad.item() == 28 and seen == [((14.0,), (2.0,))] * (2 * observe)


def test_a_residual_connection_round_a_hooked_module_keeps_both_ways(seen):
    x = leaf(3.0)
    h = x * 1
    (watched(lambda t: t * t, seen)(h) + h).backward()
    assert x.grad.item() == 7 and seen == [((6.0,), (1.0,))]


def test_grad_input_is_none_for_what_is_no_tensor_needs_none_or_got_none(seen):
    module = watched(lambda a, b, c, d, e: a * b, seen)
    module(leaf(2.0), gradhook.tensor(5.0, dtype=F64), leaf(7.0), 3, None).backward()
    assert seen == [((5.0, None, None, None, None), (1.0,))]


def test_an_output_that_got_no_gradient_is_none(seen):
    module = watched(lambda x: (x * 2, x * 3, 5, x.detach()), seen)
    out = module(leaf(1.0))
    out[1].backward()
    assert seen == [((3.0,), (None, 1.0, None, None))] and out[2] == 5


def test_each_backward_through_another_output_is_an_event_of_its_own(seen):
    a, b = watched(lambda x: (x * 2, x * 3), seen)(leaf(1.0))
    a.backward(retain_graph=True)
    b.backward()
    assert seen == [((2.0,), (1.0, None)), ((3.0,), (None, 1.0))]


def test_both_outputs_in_one_run_are_one_event(seen):
    a, b = watched(lambda x: (x * 2, x * 3), seen)(leaf(1.0))
    (a + 10 * b).backward()
    assert seen == [((32.0,), (1.0, 10.0))]


def test_the_same_tensor_twice_has_two_entries(seen):
    x = leaf(2.0)
    watched(lambda a, b: a * 3 + b * b, seen)(x, x).backward()
    assert seen == [((3.0, 4.0), (1.0,))] and x.grad.item() == 7


def test_a_module_called_twice_and_in_itself_fires_for_each_call_last_first(seen):
    module = watched(lambda x: x * x, seen)
    x = leaf(2.0)
    module(module(x)).backward()
    assert seen == [((8.0,), (1.0,)), ((32.0,), (8.0,))] and x.grad.item() == 32

    class Recursive(nn.Module):
        def forward(self, x, n):
            return x * 2 if n == 0 else self(x * 3, n - 1)

    recursive, calls = Recursive(), []
    recursive.register_full_backward_hook(lambda m, gi, go: calls.append(shown(gi)))
    recursive(leaf(1.0), 2).backward()
    assert calls == [(2.0, None), (6.0, None), (18.0, None)]


def test_without_an_input_that_needs_grad_the_hook_fires_with_the_outputs(seen):
    w = leaf(3.0)
    module = watched(lambda x: x * w, seen)
    w.register_hook(lambda g: seen.append("w"))
    module(gradhook.tensor(2.0, dtype=F64)).backward()
    assert seen == [((None,), (1.0,)), "w"] and w.grad.item() == 2


def test_no_output_that_needs_grad_means_no_event(seen):
    module = watched(lambda x: (x.detach(), x > 0), seen)
    with pytest.warns(HookNotFiringWarning, match="do not fire for this call: an input requires"):
        module(leaf(1.0))
    module(leaf(1.0))  # it was said once
    with gradhook.no_grad():
        watched(lambda x: x * 2, seen)(leaf(1.0))
    assert seen == []


def test_under_no_grad_values_pass_and_enable_grad_inside_records_with_its_hook(seen):
    # PyTorch loses the hook of such a module (HOOKS.md D28)
    def forward(x):
        with gradhook.enable_grad():
            return x * 2

    x = leaf(1.0)
    with gradhook.no_grad():
        y = watched(forward, seen)(x)
    y.backward()
    assert x.grad.item() == 2 and seen == [((2.0,), (1.0,))]


# ---- replacing


def test_a_pre_hook_replaces_grad_output_for_the_full_hook_and_the_gradients(seen):
    module, x = watched(lambda x: x * 3, seen), leaf(1.0)
    module.register_full_backward_pre_hook(lambda m, go: (go[0] * 10,))
    module.register_full_backward_pre_hook(lambda m, go: (go[0] + 1,))
    module(x).backward()
    assert seen == [((33.0,), (11.0,))] and x.grad.item() == 33


def test_a_full_hook_replaces_grad_input_and_the_next_sees_it(seen):
    module, x, y = Lambda(lambda a, b: a * b), leaf(2.0), leaf(3.0)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10, gi[1]))
    module.register_full_backward_hook(
        lambda m, gi, go: seen.append(shown(gi)) or [gi[0] + 1, gi[1]]
    )
    module(x, y).backward()
    assert seen == [(30.0, 2.0)] and x.grad.item() == 31 and y.grad.item() == 2


def test_a_single_tensor_stands_for_a_tuple_of_one_and_none_drops_a_gradient():
    module, x, w = Lambda(lambda x: x * 3 * w), leaf(1.0), leaf(2.0)
    module.register_full_backward_pre_hook(lambda m, go: go[0] * 2)
    module.register_full_backward_hook(lambda m, gi, go: (None,))
    module(x).backward()
    assert x.grad is None and w.grad.item() == 6


def test_a_pre_hook_may_fill_the_gradient_of_an_unused_output():
    module, x = Lambda(lambda x: (x * 2, x * 3)), leaf(1.0)
    module.register_full_backward_pre_hook(lambda m, go: (go[0], gradhook.ones((), dtype=F64)))
    module(x)[0].backward()
    assert x.grad.item() == 5


def test_an_in_place_edit_of_grad_input_changes_this_edge_only(seen):
    x = leaf([1.0])
    h = x * 1
    module = Lambda(lambda t: t + 0)
    module.register_full_backward_hook(
        lambda m, gi, go: seen.append(go[0]) or (gi[0].mul_(10) and None)
    )
    (module(h) + h).sum().backward()
    assert x.grad.tolist() == [11] and seen[0].tolist() == [1]


@pytest.mark.parametrize(
    "result, error, text",
    [
        (
            lambda g: (g, g),
            RuntimeError,
            "^Backward hook returned an invalid number of grad_input, got 2, but expected 1",
        ),
        (lambda g: 5, TypeError, "expected None or a tuple of 1"),
        (lambda g: {0: g}, TypeError, "expected None or a tuple of 1"),
        (lambda g: (5,), TypeError, "^expected Variable, but hook returned 'int'"),
        (lambda g: (g[0],), RuntimeError, "^hook 'h' has changed the size of value"),
        (lambda g: (g.float(),), RuntimeError, "^hook 'h' has changed the type of value"),
    ],
)
def test_a_wrong_grad_input_is_refused_by_hook_and_module(result, error, text):
    module = Lambda(lambda x: x * 2)

    def h(m, gi, go):
        return result(gi[0])

    module.register_full_backward_hook(h)
    with pytest.raises(error, match=text) as caught:
        module(leaf([1.0, 2.0])).sum().backward()
    assert "'h'" in str(caught.value) and "<Lambda>" in str(caught.value)


@pytest.mark.parametrize(
    "result, error, text",
    [
        (
            lambda g: (g, g),
            RuntimeError,
            "^Backward pre hook returned an invalid number of grad_output, got 2, but expected 1",
        ),
        (lambda g: "no", TypeError, "expected None or a tuple of 1"),
        (lambda g: (g[0],), RuntimeError, "^hook 'h' has changed the size of value"),
    ],
)
def test_a_wrong_grad_output_is_refused_by_hook_and_module(result, error, text):
    module = Lambda(lambda x: x * 2)

    def h(m, go):
        return result(go[0])

    module.register_full_backward_pre_hook(h)
    with pytest.raises(error, match=text):
        module(leaf([1.0, 2.0])).sum().backward()


def test_a_gradient_for_a_module_without_inputs_that_need_one_is_refused():
    w = leaf(3.0)
    module = Lambda(lambda x: x * w)
    module.register_full_backward_hook(lambda m, gi, go: (None,))
    module(gradhook.tensor(2.0, dtype=F64)).backward()
    module.register_full_backward_hook(lambda m, gi, go: (go[0],))
    with pytest.raises(
        RuntimeError,
        match=r"^Backward hook for Modules where no input requires gradient should always return",
    ):
        module(gradhook.tensor(2.0, dtype=F64)).backward()


def test_a_gradient_for_an_argument_that_takes_none_is_refused():
    module = Lambda(lambda x, n: x * n)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match=r"^can't replace a None gradient with a non-None value"):
        module(leaf(1.0), 3).backward()


def test_an_error_in_a_hook_names_hook_and_module_and_leaves_all_usable(seen):
    module, x = watched(lambda x: x * 2, seen), leaf(1.0)

    def broken(module, *gradients):
        raise KeyError("x")

    for register in (module.register_full_backward_pre_hook, module.register_full_backward_hook):
        with register(broken), pytest.raises(KeyError) as caught:
            module(x).backward()
        assert any("broken" in n and "<Lambda>" in n for n in caught.value.__notes__)
    seen.clear()
    module(x).backward()
    assert seen == [((2.0,), (1.0,))] and x.grad.item() == 2
