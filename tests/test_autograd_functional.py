"""autograd.functional: products, Jacobians and Hessians against matrices worked out by hand."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import autograd, nn
from gradhook.autograd import functional as A

F64 = gradhook.float64


def t(values, **options):
    return gradhook.tensor(values, dtype=F64, **options)


def f(x, y):
    """Two outputs of two inputs: (x * y of shape 2, sum of x cubed)."""
    return x * y, (x**3).sum()


X, Y = [1.0, 2.0], [5.0, 7.0]


def lists(tree):
    return tree.tolist() if isinstance(tree, gradhook.Tensor) else [lists(x) for x in tree]


def test_jacobian_has_a_block_for_each_output_and_input():
    found = A.jacobian(f, (t(X), t(Y)))
    assert lists(found) == [
        [[[5, 0], [0, 7]], [[1, 0], [0, 2]]],
        [[3, 12], [0, 0]],
    ]
    assert isinstance(found, tuple) and isinstance(found[0], tuple)
    assert A.jacobian(lambda x: x[:, None] * x, t(X)).shape == (2, 2, 2)
    assert A.jacobian(lambda x: x[:0], t(X)).shape == (0, 2)


def test_vjp_and_jvp_are_products_with_it():
    outputs, found = A.vjp(f, (t(X), t(Y)), (t([10.0, 100.0]), t(1.0)))
    assert lists(outputs) == [[5, 14], 9]
    assert lists(found) == [[5 * 10 + 3, 7 * 100 + 12], [10, 200]]
    outputs, found = A.jvp(f, (t(X), t(Y)), (t([10.0, 100.0]), t([1.0, 1.0])))
    assert lists(outputs) == [[5, 14], 9]
    assert lists(found) == [[5 * 10 + 1, 7 * 100 + 2], 3 * 10 + 12 * 100]


def g(x, y):
    """One output; its Hessian is [[2y, 2x], [2x, 6y]] for scalars."""
    return (x * x * y + y**3).sum()


def test_hessian_and_its_products():
    x, y = t(3.0), t(2.0)
    assert lists(A.hessian(g, (x, y))) == [[4, 6], [6, 12]]
    for product in (A.hvp, A.vhp):
        value, found = product(g, (x, y), (t(1.0), t(10.0)))
        assert value.item() == 26 and lists(found) == [4 + 60, 6 + 120]
    assert A.hessian(lambda x: (x**3).sum(), t(X)).tolist() == [[6, 0], [0, 12]]


def test_v_may_be_left_out_for_one_element():
    square = t([3.0])
    assert A.vjp(lambda x: x * x, square)[1].tolist() == [6]
    assert A.jvp(lambda x: x * x, square)[1].tolist() == [6]
    assert A.hvp(lambda x: x**3, square)[1].tolist() == [18]
    assert A.vhp(lambda x: x**3, square)[1].tolist() == [18]


@pytest.mark.parametrize("create_graph", [False, True])
def test_results_are_differentiable_when_asked_for(create_graph):
    x = t([3.0], requires_grad=True)
    found = [
        A.vjp(lambda x: x**4, x, create_graph=create_graph)[1],
        A.jvp(lambda x: x**4, x, create_graph=create_graph)[1],
        A.jacobian(lambda x: x**4, x, create_graph=create_graph),
        A.hvp(lambda x: x**4, x, create_graph=create_graph)[1],
        A.vhp(lambda x: x**4, x, create_graph=create_graph)[1],
        A.hessian(lambda x: x**4, x, create_graph=create_graph),
    ]
    assert [r.requires_grad for r in found] == [create_graph] * 6
    if create_graph:
        assert [autograd.grad(r.sum(), x)[0].item() for r in found] == [108] * 3 + [72] * 3


def test_it_works_without_recording_outside_and_leaves_no_grad():
    x = t(X, requires_grad=True)
    with gradhook.no_grad():
        assert A.jacobian(lambda x: x * x, x).tolist() == [[2, 0], [0, 4]]
    assert x.grad is None


def test_functions_may_call_hooked_modules():
    model, log = nn.Linear(2, 1).double(), []
    model.register_full_backward_hook(lambda m, gi, go: log.append(1) or (gi[0] * 10,))
    x = t(X)
    row = A.jacobian(model, x)
    assert row.tolist() == (model.weight * 10).tolist() and log == [1]
    _, found = A.vjp(model, x, t([2.0]))
    assert found.tolist() == (model.weight[0] * 20).tolist()
    assert A.hessian(lambda x: (model(x) ** 2).sum(), x).shape == (2, 2)


def test_independent_outputs_are_zeros_or_an_error_in_strict_mode():
    x, y = t(X), t(Y)
    constant, linear = (lambda x: t([1.0, 2.0])), (lambda x: (x * 3).sum())
    assert A.jacobian(constant, x).tolist() == [[0, 0], [0, 0]]
    assert A.vjp(lambda x, y: x * 2, (x, y), t([1.0, 1.0]))[1][1].tolist() == [0, 0]
    assert A.jvp(constant, x, x)[1].tolist() == [0, 0]
    assert A.hessian(linear, x).tolist() == [[0, 0], [0, 0]]
    for call, text in (
        (lambda: A.jacobian(constant, x, strict=True), "^Output 0 of the user-provided function d"),
        (lambda: A.vjp(lambda x, y: x, (x, y), x, strict=True), "is independent of input 1"),
        (lambda: A.jacobian(lambda x, y: x, (x, y), strict=True), "is independent of input 1"),
        (lambda: A.hessian(linear, x, strict=True), "the jacobian of the user-provided function"),
        (lambda: A.vhp(linear, x, x, strict=True), "the jacobian of the user-provided function"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_errors_say_what_does_not_fit():
    x = t(X)
    for call, kind, text in (
        (
            lambda: A.vjp(f, [x]),
            TypeError,
            "The inputs given to vjp must be either a Tensor or a t",
        ),
        (lambda: A.jvp(f, (x, 3)), TypeError, "the value at index 1 has type <class 'int'>"),
        (lambda: A.vjp(lambda x: 3, x), TypeError, "outputs of the user-provided function given t"),
        (lambda: A.vjp(lambda x: x, x), RuntimeError, "The vector v can only be None if the user"),
        (lambda: A.jvp(lambda x: x, x), RuntimeError, "can only be None if the input to the user"),
        (lambda: A.vjp(lambda x: x, x, t([1.0])), RuntimeError, "v has invalid size: should be"),
        (lambda: A.vjp(lambda x: x, x, (x, x)), RuntimeError, "v should contain a single Tensor"),
        (lambda: A.jvp(f, (x, x), (x,)), RuntimeError, "tuple of invalid length: should be 2"),
        (lambda: A.hessian(lambda x: x, x), RuntimeError, "hessian should contain a single el"),
        (lambda: A.hvp(lambda x: (x,), x, x), RuntimeError, "given to hvp should return a single"),
        (lambda: A.jacobian(f, x, strategy="no"), AssertionError, 'strategy to be either "forwar'),
        (
            lambda: A.jacobian(f, x, strict=True, vectorize=True),
            RuntimeError,
            "are not supported together",
        ),
        (
            lambda: A.jacobian(f, x, strategy="forward-mode"),
            NotImplementedError,
            "only implemented for `vectorize=True`",
        ),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_vectorize_and_strategies_give_the_same():
    for options in ({"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        assert A.jacobian(lambda x: x * x, t(X), **options).tolist() == [[2, 0], [0, 4]]
    found = A.hessian(
        lambda x: (x**3).sum(), t(X), vectorize=True, outer_jacobian_strategy="forward-mode"
    )
    assert found.tolist() == [[6, 0], [0, 12]]
