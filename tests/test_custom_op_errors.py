"""What register_op refuses, and what a registered op's functions may not return."""

from __future__ import annotations

import numpy as np
import pytest
from registering import leaf, nothing_stays_registered, square, square_op

from gradhook import register_op
from gradhook.ops.table import TABLE


@pytest.fixture(autouse=True)
def _alone():
    with nothing_stays_registered():
        yield


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("add", "op table"),
        ("zeros", "gradhook.zeros is a function"),
        ("relu", "op table"),
        ("einsum", "op table"),
        ("2d", "identifier"),
        ("class", "identifier"),
        ("_mine", "identifier"),
        ("a.b", "identifier"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(name, why):
    with pytest.raises(ValueError, match=why):
        register_op(name, square, {"x": None})


def test_a_second_registration_is_refused_until_the_first_is_removed():
    first = square_op()
    with pytest.raises(ValueError, match="'my_square' is taken"):
        square_op()
    first.remove()
    second = register_op("my_square", lambda xp, x: x + 5, {"x": lambda xp, g: g})
    x = leaf([3.0])
    second(x).backward()
    assert second(x).item() == 8 and x.grad.item() == 1
    first.remove()  # of the op that is gone: nothing
    assert second.is_registered() and not first.is_registered()
    with pytest.raises(RuntimeError, match="was removed"):
        first(x)


def test_methods_that_are_there_are_not_replaced():
    with pytest.raises(ValueError, match=r"Tensor\.tolist is there"):
        register_op("tolist", square, {"x": None}, method=True)
    with pytest.raises(ValueError, match=r"Tensor\.zero_ is there"):
        register_op("zero", square, {"x": None}, inplace=True)


@pytest.mark.parametrize(
    ("forward", "gradients", "text"),
    [
        (square, {}, r"no formula for \['x'\]"),
        (square, {"x": None, "y": None}, "formula for 'y', which is no tensor input"),
        (square, {"x": lambda xp, g, z: g}, r"names \['z'\]"),
        (square, {"x": lambda g, x: g}, "expected formula"),
        (square, {"x": lambda xp, *g: g}, "expected formula"),
        (lambda x: x, {"x": None}, "its first parameter is not xp"),
        (lambda xp: 1, {}, "it has no tensor input"),
        (lambda xp, *, by: 1, {}, "it has no tensor input"),
        (lambda xp, x, by=2.0: x, {"x": None}, "'by' has the default 2.0"),
        (lambda xp, x, **more: x, {"x": None}, r"it has \*\*more"),
        (lambda xp, g: g, {"g": None}, "meaning of its own"),
        (lambda xp, x, *, out0: x, {"x": None}, "meaning of its own"),
        (lambda xp, x, *, x_shape: x, {"x": None}, "meaning of its own"),
        (lambda xp, x, *ys: x, {"x": None}, "variadic input is the only one"),
        (lambda xp, x, *, by=np.float32: x, {"x": None}, "expected a literal"),
        (lambda xp, x, *, node=1: x, {"x": None}, "names of the recorder"),
    ],
)
def test_a_wrong_signature_or_a_missing_formula_is_an_error_that_leaves_nothing(
    forward, gradients, text
):
    before = set(TABLE)
    with pytest.raises(TypeError, match=text) as error:
        register_op("my_wrong", forward, gradients)
    assert "my_wrong" in str(error.value) and set(TABLE) == before


def test_a_kernel_of_a_gradient_without_its_formula_is_refused():
    with pytest.raises(TypeError, match=r"gradient_kernels for \['y'\]"):
        square_op(gradient_kernels={"y": lambda g, x: g})


def test_a_formula_beyond_the_table_says_so():
    op = register_op("my_odd", square, {"x": lambda xp, g, x: xp.einsum_path(g, x)})
    with pytest.raises(AttributeError, match="op table has no 'einsum_path'"):
        op(leaf([1.0])).backward()


@pytest.mark.parametrize(
    ("forward", "error", "text"),
    [
        (lambda xp, x: None, TypeError, "the forward of my_wrong returned NoneType"),
        (lambda xp, x: [x * 1], TypeError, "returned list"),
        (lambda xp, x: 2.0, TypeError, "returned float"),
        (lambda xp, x: x, RuntimeError, "an input or a view of one"),
        (lambda xp, x: x[::-1], RuntimeError, "an input or a view of one"),
    ],
)
def test_a_forward_that_returns_no_array_of_its_own_is_an_error(forward, error, text):
    op = register_op("my_wrong", forward, {"x": None})
    with pytest.raises(error, match=text):
        op(leaf([1.0, 2.0]))


def test_a_wrong_number_of_outputs_is_an_error():
    op = register_op("my_wrong", lambda xp, x: (x * 1, x * 2), {"x": None}, n_outputs=3)
    with pytest.raises(TypeError, match="returned 2, expected a tuple of 3 arrays"):
        op(leaf([1.0]))


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("formula", "error", "text"),
    [
        (
            lambda xp, g: xp.reshape(g, shape=(3, 2)),
            RuntimeError,
            r"shape \(3, 2\), expected \(2, 3\)",
        ),
        (lambda xp, g: xp.concat(g, g, axis=0), RuntimeError, r"shape \(4, 3\)"),
        (lambda xp, g: None, TypeError, "for x returned NoneType"),
        (lambda xp, g: (g,), TypeError, "for x returned tuple"),
    ],
)
def test_a_gradient_of_a_wrong_shape_is_an_error_that_names_op_and_input(
    formula, error, text, create_graph
):
    op = register_op("my_wrong", square, {"x": formula})
    y = op(leaf(np.ones((2, 3)))).sum()
    with pytest.raises(error, match=text) as found:
        y.backward(create_graph=create_graph)
    assert "the formula of my_wrong for x" in str(found.value)


def test_a_joint_or_variadic_formula_gives_as_many_gradients_as_inputs():
    joint = register_op("my_joint", lambda xp, x, y: x + y, {("x", "y"): lambda xp, g: (g, g, g)})
    several = register_op("my_several", lambda xp, *xs: xs[0] * 1, {"xs": lambda xp, g: (g,)})
    x = leaf([1.0])
    with pytest.raises(TypeError, match="expected a tuple of 2 gradients"):
        joint(x, x).backward()
    with pytest.raises(TypeError, match="expected a tuple of 2 gradients"):
        several(x, x * 2).backward()
