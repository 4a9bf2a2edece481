"""Whose memory a gradient is: no write changes what somebody else holds."""

from __future__ import annotations

import numpy as np
import op_cases
import pytest
from arrays import share_memory

import gradhook
from gradhook import autograd
from gradhook.autograd.source import MAY_ALIAS
from gradhook.ops.namespace import table_namespace
from gradhook.ops.table import TABLE


def leaf(values, dtype=gradhook.float64):
    return gradhook.tensor(values, dtype=dtype, requires_grad=True)


def shares(a, b):
    return share_memory(a, b)


def test_one_gradient_handed_to_two_inputs_is_not_accumulated_into():
    # in-place accumulation into what add hands to both sides gave 6 for 1
    x, w = leaf([1.0]), leaf([1.0])
    y = x + w
    (y + y + x).sum().backward()
    assert x.grad.tolist() == [3] and w.grad.tolist() == [2] and not shares(x.grad, w.grad)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 20])
def test_x_plus_x_n_times_gives_powers_of_two(n):
    x = leaf([1.0])
    y = x
    for _ in range(n):
        y = y + y
    y.sum().backward()
    assert x.grad.tolist() == [2.0**n]


def test_the_callers_gradient_is_never_changed_nor_adopted():
    g = gradhook.ones(3, dtype=gradhook.float64)
    for make in (
        lambda x: x.view(3),
        lambda x: x + 0.0,
        lambda x: x + x,
        lambda x: x[:],
        lambda x: x.clone(),
    ):
        x = leaf([1.0, 2.0, 3.0])
        make(x).backward(g)
        make(x).backward(g)
        assert g.tolist() == [1, 1, 1] and not shares(x.grad, g)


def test_the_real_part_of_the_callers_complex_gradient_is_not_adopted():
    x = leaf([1.0, 2.0])
    y = x + gradhook.tensor([1 + 2j, 3 + 1j], dtype=gradhook.complex128)
    g = gradhook.tensor([1 + 2j, 3 + 1j], dtype=gradhook.complex128)
    y.backward(g, retain_graph=True)
    y.backward(g)
    assert g.tolist() == [1 + 2j, 3 + 1j] and x.grad.tolist() == [2, 6]


def test_the_cached_gradient_of_a_scalar_root_is_not_adopted():
    x = leaf(1.0)
    x.backward()
    x.grad.add_(5)
    y = leaf(1.0)
    y.backward()
    assert y.grad.item() == 1 and x.grad.item() == 6


def test_the_gradient_of_an_expanded_tensor_is_summed_and_the_expanded_gradient_copied():
    x = leaf([[1.0], [2.0]])
    x.expand(2, 3).sum().backward()
    assert x.grad.tolist() == [[3], [3]]
    y = leaf(np.ones((2, 3)).tolist())
    y.sum().backward()  # the gradient in flight is one number with strides 0
    y.grad[0, 0] = 7
    assert y.grad.tolist() == [[7, 1, 1], [1, 1, 1]]


def test_a_hook_keeps_what_it_got_and_it_is_not_changed_later():
    x, kept = leaf([1.0, 2.0]), []
    x.register_hook(lambda g: kept.append(g))
    for _ in range(3):
        (x * 2 + x).sum().backward()
    assert [k.tolist() for k in kept] == [[3, 3]] * 3 and x.grad.tolist() == [9, 9]


def test_grad_aliases_nothing_that_a_hook_saw():
    kept = []
    x = leaf([1.0, 2.0])
    x.register_hook(kept.append)
    y = x * 3
    y.register_hook(kept.append)
    y.retain_grad()
    y.grad_fn.register_prehook(lambda gs: kept.extend(gs))
    y.grad_fn.register_hook(lambda gi, go: kept.extend(g for g in (*gi, *go) if g is not None))
    y.sum().backward()
    assert len(kept) == 5
    assert not any(shares(g, k) for g in (x.grad, y.grad) for k in kept)
    x.grad.zero_()
    y.grad.zero_()
    assert {tuple(k.tolist()) for k in kept} == {(1.0, 1.0), (3.0, 3.0)}


def test_what_a_hook_returns_may_be_kept_by_it():
    x, kept = leaf([1.0, 2.0]), gradhook.full((2,), 5.0, dtype=gradhook.float64)
    x.register_hook(lambda g: kept)
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert kept.tolist() == [5, 5] and x.grad.tolist() == [10, 10]


def test_an_edit_in_place_changes_the_gradient_of_this_edge_only():
    # PyTorch changes the sibling's gradient, too (HOOKS.md D21)
    x, w, kept = leaf([1.0]), leaf([1.0]), []
    a, b = x * 1, w * 1
    y = a + b
    b.register_hook(kept.append)
    a.register_hook(lambda g: g.mul_(10) and None)
    y.backward(gradhook.ones(1, dtype=gradhook.float64))
    assert x.grad.tolist() == [10] and w.grad.tolist() == [1] and kept[0].tolist() == [1]


@pytest.mark.cpu_only(reason="an export of a device is a copy")
def test_a_gradient_exported_by_a_hook_is_read_only():
    x, exported = leaf([1.0, 2.0]), []
    x.register_hook(lambda g: exported.append(g.numpy()))
    (x * 2).sum().backward()
    with pytest.raises(ValueError, match=r"read-only"):
        exported[0][0] = 1


WRITES = {
    "zero_": lambda x: x.grad.zero_(),
    "a view": lambda x: x.grad[0].fill_(0),
    "detach": lambda x: x.grad.detach().zero_(),
    "data": lambda x: x.grad.data.zero_(),
    "accumulation": lambda x: (x * 5).sum().backward(),
    "clip_grad_norm_": lambda x: gradhook.nn.utils.clip_grad_norm_([x], 1e-3),
    "clip_grad_norm_, 3": lambda x: gradhook.nn.utils.clip_grad_norm_([x], 1e-3, norm_type=3.0),
    "clip_grad_value_": lambda x: gradhook.nn.utils.clip_grad_value_([x], 1e-3),
    "zero_grad": lambda x: gradhook.optim.SGD([x]).zero_grad(set_to_none=False),
    "numpy": lambda x: x.grad.cpu().numpy().fill(0),
}


@pytest.mark.parametrize("hook", ["tensor", "node before", "node after"])
@pytest.mark.parametrize("write", WRITES)
def test_what_a_hook_kept_stays_whatever_is_done_to_grad(write, hook):
    x, kept = leaf([1.0, 2.0]), []
    node = (x * 1).grad_fn.next_functions[0][0]
    if hook == "tensor":
        x.register_hook(kept.append)
    elif hook == "node before":
        node.register_prehook(lambda gs: kept.append(gs[0]))
    else:
        node.register_hook(lambda gi, go: kept.append(go[0]))
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    WRITES[write](x)
    assert kept[0].tolist() == [3, 3]


def test_a_write_to_what_a_hook_kept_does_not_reach_grad():
    x, kept = leaf([1.0, 2.0]), []
    x.register_hook(kept.append)
    (x * 3).sum().backward()
    kept[0].zero_()
    kept[0].data.fill_(7)
    assert x.grad.tolist() == [3, 3] and kept[0].tolist() == [7, 7]


def test_the_grad_after_an_empty_hook_is_like_any_other_to_write_and_export():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: None)
    (x * 3).sum().backward()
    first = x.grad
    first[0] = 5
    assert x.grad is first and x.grad.tolist() == [5, 3]
    (x * 3).sum().backward()
    assert x.grad is first and first.tolist() == [8, 6]


def test_accumulation_keeps_the_tensor_object_of_grad_and_moves_its_version():
    x = leaf([1.0, 2.0])
    (x * 2).sum().backward()
    first, version = x.grad, x.grad._version
    (x * 3).sum().backward()
    assert x.grad is first and first.tolist() == [5, 5] and first._version == version + 1


def test_accumulation_into_a_0_d_grad_keeps_the_tensor_object_and_an_array():
    x = leaf(1.0)
    (x * 2).backward()
    first = x.grad
    (x * 3).backward()
    assert x.grad is first and first.item() == 5 and isinstance(first.cpu().numpy(), np.ndarray)


def test_accumulation_into_an_expanded_grad_of_the_users_is_right():
    x = leaf([1.0, 2.0])
    x.grad = gradhook.ones(1, dtype=gradhook.float64).expand(2)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_accumulation_under_create_graph_makes_a_new_tensor():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    first = x.grad
    (x * x * x).sum().backward(create_graph=True)
    assert first.tolist() == [2, 4] and x.grad.tolist() == [5, 16] and x.grad.requires_grad


def test_gradients_asked_for_with_grad_are_not_the_graphs_saved_memory():
    x = leaf([1.0, 2.0])
    y = x * x
    (gy,) = autograd.grad(y.sum(), [y], retain_graph=True)
    (gx,) = autograd.grad(y.sum(), [x], retain_graph=True)
    gy.mul_(100)
    gx.mul_(100)
    assert x.tolist() == [1, 2]
    assert autograd.grad(y.sum(), [x])[0].tolist() == [2, 4]


@pytest.mark.parametrize("hook", [False, True])
def test_two_leaves_of_one_gradient_can_be_changed_apart(hook):
    x, w = leaf([1.0, 1.0]), leaf([1.0, 1.0])
    if hook:
        x.register_hook(lambda g: None)
    (x + w).sum().backward()
    x.grad.mul_(5)
    (x + w).sum().backward()
    assert x.grad.tolist() == [6, 6] and w.grad.tolist() == [2, 2]


def test_float32_gradients_of_float64_computations_are_float32():
    x = leaf([1.0, 2.0], dtype=gradhook.float32)
    (x * gradhook.tensor([3.0, 4.0], dtype=gradhook.float64)).sum().backward()
    assert x.grad.dtype == gradhook.float32 and x.grad.tolist() == [3, 4]


def test_an_edit_through_a_view_of_a_gradient_in_column_order_is_an_edit_of_the_gradient():
    def edit(g):
        v = g.t().reshape(-1)
        assert v._is_view()
        v[-1] = 50.0

    ones = gradhook.from_numpy(np.asfortranarray(np.ones((2, 3))))
    x = ones.clone().requires_grad_()
    x.register_hook(edit)
    (x * ones).sum().backward()
    assert x.grad.tolist() == [[1, 1, 1], [1, 1, 50]]


@pytest.mark.cpu_only(reason="it is about the formulas over NumPy")
def test_an_op_that_is_no_view_returns_memory_of_its_own():
    """What the engine relies on when it adopts a buffer (autograd/source.py)."""
    namespace, sharing = table_namespace(np), set()
    for name, rows in op_cases.cases().items():
        if TABLE[name].view or TABLE[name].composite or name in MAY_ALIAS:
            continue
        for case in rows:
            arrays = [None if a is None else np.asarray(a) for a in case.inputs]
            out = getattr(namespace, name)(*arrays, **case.attributes)
            outs = out if isinstance(out, tuple | list) else [out]
            if any(np.shares_memory(o, a) for o in outs for a in arrays if a is not None):
                sharing.add(name)
    assert not sharing
