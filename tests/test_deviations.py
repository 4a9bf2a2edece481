"""docs/deviations.md, row by row: what gradhook does where it differs from PyTorch on purpose."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gradhook
from gradhook import autograd, nn
from gradhook.autograd.graph import register_multi_grad_hook


def leaf(*values: float) -> gradhook.Tensor:
    return gradhook.tensor(values, requires_grad=True)


class Call(nn.Module):
    """A module whose forward is the function it is given."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def hooked(function):
    module, events = Call(function), []
    module.register_full_backward_hook(lambda m, gi, go: events.append((gi, go)))
    return module, events


def test_01_grad_captures_after_tensor_hooks_whatever_else_is_asked():
    x = leaf(1.0)
    for inputs in (1, 2):
        y = x * 2
        y.register_hook(lambda g: g * 10)
        (y * 3).sum().backward(retain_graph=True)
        found = autograd.grad((y * 3).sum(), [y, x][:inputs])
        assert found[0].tolist() == [30]


def test_02_hooks_on_an_accumulator_stay_while_the_leaf_lives():
    x, seen = leaf(1.0), []
    x.view_as(x).grad_fn.next_functions[0][0].register_prehook(lambda g: seen.append(1))
    (x * 2).sum().backward()
    assert seen == [1]


def test_03_post_accumulate_does_not_fire_when_nothing_was_accumulated():
    class Nothing(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x, seen = leaf(1.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p))
    Nothing.apply(x).sum().backward()
    assert seen == [] and x.grad is None


def test_04_grad_input_is_none_where_no_gradient_is_and_takes_none():
    module, events = hooked(lambda x, y: x * y)
    module(leaf(2.0), gradhook.tensor([3.0])).sum().backward()
    assert events[0][0][1] is None
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], go[0]))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        module(leaf(2.0), gradhook.tensor([3.0])).sum().backward()


@pytest.mark.parametrize("wrap", [lambda g: g, lambda g: [g], lambda g: (g,)])
def test_05_a_module_hook_may_return_a_bare_tensor_or_a_list(wrap):
    module, x = Call(lambda x: x * 2), leaf(1.0)
    module.register_full_backward_hook(lambda m, gi, go: wrap(gi[0] * 5))
    module(x).sum().backward()
    assert x.grad.tolist() == [10]


def test_06_tensors_in_containers_and_keywords_pass_the_hooks():
    module, events = hooked(lambda x, *, k: {"a": [x * k]})
    module(leaf(1.0), k=leaf(4.0))["a"][0].sum().backward()
    grad_input, grad_output = events[0]
    assert grad_input[0].tolist() == [4] and grad_output[0]["a"][0].tolist() == [1]


def test_07_what_a_forward_hook_captured_passes_the_full_hook():
    module, events = hooked(lambda x: x * 2)
    kept = []
    module.register_forward_hook(lambda m, args, out: kept.append(out))
    module(leaf(1.0))
    (kept[0] * 3).sum().backward()
    assert len(events) == 1 and events[0][1][0].tolist() == [3]


def test_08_enable_grad_inside_a_call_under_no_grad_keeps_the_hooks():
    def forward(x):
        with gradhook.enable_grad():
            return x * 2

    module, events = hooked(forward)
    with gradhook.no_grad():
        out = module(leaf(1.0))
    out.sum().backward()
    assert len(events) == 1


def test_09_double_backward_past_the_outputs_is_no_event():
    x, w = leaf(3.0), leaf(2.0)
    module, events = hooked(lambda x: x * w)
    (gw,) = autograd.grad((module(x) * 5).sum(), w, create_graph=True)
    before = len(events)
    (gx,) = autograd.grad(gw.sum(), x)
    assert gx.tolist() == [5] and len(events) == before


def test_10_always_call_hooks_run_on_keyboard_interrupt_and_get_kwargs():
    def interrupted(x, *, k):
        raise KeyboardInterrupt

    module, seen = Call(interrupted), []
    module.register_forward_hook(
        lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True, always_call=True
    )
    with pytest.raises(KeyboardInterrupt):
        module(leaf(1.0), k=1)
    assert seen == [{"k": 1}]


def test_11_removing_the_last_hook_forgets_its_kind():
    module = Call(lambda x: x)
    module.register_full_backward_hook(lambda *a: None).remove()
    module.register_backward_hook(lambda *a: None)


def test_12_what_cannot_be_called_is_refused_at_registration():
    with pytest.raises(TypeError, match="not callable"):
        leaf(1.0).register_hook(3)


@pytest.mark.parametrize(("with_hooks", "expected"), [(False, "abc"), (True, "cba")])
def test_13_leaves_that_are_ready_at_once_have_an_order(with_hooks, expected):
    order = []
    leaves = {name: leaf(1.0) for name in "abc"}
    for name, x in leaves.items():
        x.register_post_accumulate_grad_hook(lambda p, name=name: order.append(name))
        if with_hooks:
            x.register_hook(lambda g: None)
    gradhook.cat(list(leaves.values())).sum().backward()
    assert "".join(order) == expected


def test_14_hooked_outputs_and_inputs_may_be_written_in_place():
    module, events = hooked(lambda x: x.mul_(2))
    x = leaf(1.0)
    y = module(x * 1)
    y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [2] and len(events) == 1


def test_15_a_tensor_may_be_multiplied_by_itself_in_place():
    x = leaf(3.0)
    y = x * 1
    y.mul_(y)
    y.sigmoid_()
    y.mul_(2)
    y.sum().backward()
    s = 1 / (1 + np.exp(-9.0))
    assert np.isclose(x.grad.item(), 2 * s * (1 - s) * 6, rtol=1e-3)


def test_16_a_view_made_under_no_grad_requires_no_grad():
    x = leaf(1.0, 2.0) * 1
    with gradhook.no_grad():
        view = x[0]
    assert not view.requires_grad


def test_17_a_view_of_several_follows_its_written_base():
    x = leaf(1.0, 2.0)
    y = x * 1
    first, _ = y.unbind()
    y.mul_(3)
    first.backward()
    assert x.grad.tolist() == [3, 0]


def test_18_source_and_target_of_a_write_may_overlap():
    t = gradhook.tensor([1.0, 2.0, 3.0])
    t[1:].add_(t[:-1])
    assert t.tolist() == [1, 3, 5]


def test_19_a_leaf_view_of_a_constant_keeps_its_gradient_after_a_write():
    base = gradhook.zeros(3)
    x = base[:2].requires_grad_()
    with gradhook.no_grad():
        x.add_(1)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize(
    "write", [lambda t: t.fill_(1), lambda t: t.zero_(), lambda t: t.__setitem__(0, 1.0)]
)
def test_20_writes_into_memory_that_overlaps_itself_are_refused(write):
    t = gradhook.zeros(1).expand(3, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        write(t)


@pytest.mark.cpu_only(reason="a NumPy array is an array of the CPU tensors' own library")
def test_21_an_array_of_the_tensors_library_is_a_constant_operand():
    x = gradhook.tensor([2.0], device="cpu", requires_grad=True)
    (x * np.array([3.0], np.float32)).sum().backward()
    assert x.grad.tolist() == [3]


def test_22_float16_with_a_complex_number_is_complex64():
    assert (gradhook.ones(1).half() * 1j).dtype == gradhook.complex64


def test_25_hooks_that_cannot_fire_warn_once():
    class Opaque:
        def __init__(self, value):
            self.value = value

    for forward, text in ((Opaque, "cannot see tensors"), (lambda x: x.detach(), "do not fire")):
        module, _ = hooked(forward)
        with pytest.warns(gradhook.hooks.HookNotFiringWarning, match=text) as found:
            module(leaf(1.0))
            module(leaf(1.0))
        assert len(found) == 1


def test_26_the_legacy_warning_counts_nodes_and_comes_once_a_module():
    for forward, count in ((lambda x: x * 2, 0), (lambda x: x * 2 + 1, 1)):
        module = Call(forward)
        module.register_backward_hook(lambda m, gi, go: None)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(2):
                module(leaf(1.0))
        assert len(found) == count


def test_29_multi_grad_hooks_take_leaves_under_grad_and_the_root_itself():
    x, calls = leaf(1.0), []
    y = x * 2
    root = y.sum()
    register_multi_grad_hook([root, y, x], lambda grads: calls.append([g.tolist() for g in grads]))
    root.backward(retain_graph=True)
    autograd.grad(root, x)
    assert calls == [[1, [1], [2]]] * 2
