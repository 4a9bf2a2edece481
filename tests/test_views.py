"""Views and in-place writes: what is shared, what gradients flow, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import put, share_memory

import gradhook
from gradhook import autograd

F64 = gradhook.float64
STALE = "one of the variables needed for gradient computation has been modified by an inplace"


def leaf(values):
    return gradhook.tensor(np.asarray(values, dtype=float).tolist(), dtype=F64, requires_grad=True)


def constant(values):
    return gradhook.tensor(np.asarray(values, dtype=float).tolist(), dtype=F64)


def fortran(values):
    return put(np.asfortranarray(np.asarray(values, dtype=float)))


def numeric(program, start, eps=1e-6):
    """d sum(program(x)**2) / dx by central differences."""
    found = np.zeros_like(start)
    for k in np.ndindex(start.shape):
        for sign in (1, -1):
            moved = start.copy()
            moved[k] += sign * eps
            with gradhook.no_grad():
                value = program(put(moved))
            found[k] += sign * float((value.cpu().numpy() ** 2).sum()) / (2 * eps)
    return found


# ---- what views share


VIEWS = {
    "slice": lambda t: t[1:],
    "step": lambda t: t[::2],
    "select": lambda t: t[1],
    "transpose": lambda t: t.t(),
    "reshape": lambda t: t.reshape(-1),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "expand": lambda t: t.expand(2, 3, 4),
    "diagonal": lambda t: t.diagonal(),
    "unbind": lambda t: t.unbind(1)[2],
    "split": lambda t: t.split(2, 1)[1],
    "narrow of a transpose": lambda t: t.t().narrow(0, 1, 2),
    "view of a view of a view": lambda t: t[1:].t()[0:2].reshape(2, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_memory_version_and_base(name):
    t = constant(np.arange(12.0).reshape(3, 4))
    v = VIEWS[name](t)
    assert v._base is t and v._is_view() and share_memory(v, t)
    assert v._version == t._version == 0
    t.add_(1)
    assert v._version == t._version == 1
    np.testing.assert_array_equal(v.cpu().numpy(), VIEWS[name](t).cpu().numpy())


def test_a_reshape_that_must_copy_is_no_view():
    t = constant(np.arange(6.0).reshape(2, 3)).t()
    r = t.reshape(6)
    assert not r._is_view()
    t.zero_()
    assert r.tolist() == [0, 3, 1, 4, 2, 5] and r._version == 0


def test_detach_shares_memory_and_version_but_no_history():
    x = leaf([1, 2])
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.is_leaf
    d.mul_(10)
    assert y.tolist() == [20, 40] and y._version == 1


def test_a_write_through_detach_makes_what_was_saved_stale():
    x = leaf([1, 2])
    y = x.exp()
    y.detach().zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


# ---- in-place programs: gradients of the first and second order against finite differences


def base_then_view(x):
    y = x * 2
    y.mul_(3)
    v = y[0]
    return v * y


def write_on_a_view(x):
    y = x * 1
    y[1].mul_(x[0])
    return y


def write_on_a_view_of_a_view(x):
    y = x.sin()
    y[1:].t()[0].mul_(3).add_(x[0, 0])
    return y * y


def write_on_the_base_after_the_view(x):
    y = x * 1
    v = y[:, 1]
    y.mul_(x)
    return v * x[:, 0]


def sibling_views(x):
    y = x * 1
    a, b = y[0], y[1]
    a.mul_(b.clone())
    b.mul_(a.clone())
    return y + x


def chained(x):
    return (x * 1).add_(1).mul_(x).sub_(x * x).div_(2.0).exp_().tanh_()


def assigned_basic(x):
    y = x * 1
    y[0] = x[1] * x[2]
    y[1:, 1] = 4.0
    return y * x


def assigned_advanced(x):
    y = x * 1
    y[gradhook.tensor([0, 2])] = x[1] * 2
    y[y.detach() > 1.3] = 0.5
    return y * x


def assigned_into_a_constant(x):
    y = gradhook.zeros(3, 2, dtype=F64)
    y[0] = x[0] * x[1]
    y[:, 1].add_(x[:, 0])
    return y


def copied(x):
    y = gradhook.empty(3, 2, dtype=F64)
    y.t().copy_((x * x).t())
    y[2].zero_()
    return y


def masked(x):
    y = x.sin()
    return y.masked_fill_(constant([[1, 0], [0, 1], [0, 0]]) > 0, 2.0) * x


def operators(x):
    y = x * 1
    y += x
    y *= x
    y[0] -= x[1]
    y[1] /= 2 + x[0] * x[0]
    return y


def fortran_base(x):
    y = fortran(np.ones((3, 2)))
    y.mul_(x)
    y[1].mul_(x[0])
    y.t()[0].add_(x[:, 1])
    return y


def noncontiguous_base(x):
    y = (x.t() * 1).t()[::2]
    y[1].mul_(x[1])
    return y * 3


def the_same_tensor_twice(x):
    y = x * 1
    return y.mul_(y)


def through_no_grad(x):
    y = x * 2
    z = y * 3
    with gradhook.no_grad():
        y.mul_(1.0)
    return z + y


PROGRAMS = [
    base_then_view,
    write_on_a_view,
    write_on_a_view_of_a_view,
    write_on_the_base_after_the_view,
    sibling_views,
    chained,
    assigned_basic,
    assigned_advanced,
    assigned_into_a_constant,
    copied,
    masked,
    operators,
    fortran_base,
    noncontiguous_base,
    the_same_tensor_twice,
    through_no_grad,
]
START = np.array([[0.9, 1.4], [0.6, 1.1], [1.7, 0.8]])


@pytest.mark.parametrize("create_graph", [False, True], ids=["arrays", "create_graph"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_gradient_of_an_in_place_program_is_its_derivative(program, create_graph):
    x = leaf(START)
    out = program(x)
    (g,) = autograd.grad((out * out).sum(), [x], create_graph=create_graph)
    np.testing.assert_allclose(
        g.detach().cpu().numpy(), numeric(program, START), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_second_derivative_of_an_in_place_program_is_right(program):
    weights = np.array([[0.3, -1.0], [0.7, 0.2], [-0.5, 1.1]])

    def first(values, create_graph=False):
        x = leaf(values)
        out = program(x)
        (g,) = autograd.grad((out * out).sum(), [x], create_graph=create_graph)
        return x, (g * constant(weights)).sum()

    x, projected = first(START, create_graph=True)
    (g,) = autograd.grad(projected, [x])
    expected, eps = np.zeros_like(START), 1e-5
    for k in np.ndindex(START.shape):
        up, down = START.copy(), START.copy()
        up[k] += eps
        down[k] -= eps
        expected[k] = (first(up)[1].item() - first(down)[1].item()) / (2 * eps)
    np.testing.assert_allclose(g.cpu().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_an_in_place_op_returns_its_target_and_moves_its_version():
    x = leaf([1, 2])
    y = x * 1
    before = y.grad_fn
    assert y.add_(1) is y and y._version == 1 and y.grad_fn is not before
    y += 1
    y[0] = 3
    assert y._version == 3


def test_hooks_stay_with_the_old_version_and_retain_grad_follows():
    x, seen = leaf([1, 2]), []
    y = x * 1
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    y.mul_(10)
    y.sum().backward()
    assert seen == [[10, 10]] and y.grad.tolist() == [1, 1] and x.grad.tolist() == [10, 10]


def test_retain_grad_follows_a_view_and_its_base():
    x = leaf([1, 2, 3])
    y = x * 1
    v = y[1:]
    y.retain_grad()
    v.retain_grad()
    v.mul_(10)
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2, 2, 2] and x.grad.tolist() == [2, 20, 20]


def test_a_view_taken_before_its_base_got_a_history_has_one_afterwards():
    x = leaf([1, 2, 3])
    base = gradhook.zeros(3, dtype=F64)
    v = base[:2]
    base.add_(x)
    (v * v).sum().backward()
    assert x.grad.tolist() == [2, 4, 0]


@pytest.mark.cpu_only(reason="CuPy's results lie in row order, NumPy's as their inputs")
@pytest.mark.parametrize("create_graph", [False, True], ids=["arrays", "create_graph"])
def test_a_gradient_in_another_memory_order_than_its_base_is_sliced_right(create_graph):
    x = fortran(np.ones((2, 3))).requires_grad_()
    base = x * 1
    v = base.t().reshape(-1)  # a view of memory in column order, a copy of one in row order
    assert v._is_view()
    v.mul_(constant(np.arange(6)))
    g = constant(np.arange(6).reshape(2, 3))
    (found,) = autograd.grad(base, [x], [g], create_graph=create_graph)
    assert found.tolist() == [[0, 2, 8], [3, 12, 25]]


def test_a_clone_of_an_expanded_tensor_lies_in_row_order():
    made = gradhook.ones(3).expand(2, 3).clone()
    assert made.stride() == (3, 1) and made.is_contiguous()
