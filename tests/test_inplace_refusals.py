"""In-place writes that are refused, and saved tensors that went stale."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook

F64 = gradhook.float64
LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF = (
    "a view of a leaf Variable that requires grad is being used in an in-place operation."
)
STALE = "one of the variables needed for gradient computation has been modified by an inplace"


def leaf(values):
    return gradhook.tensor(np.asarray(values, dtype=float).tolist(), dtype=F64, requires_grad=True)


def constant(values):
    return gradhook.tensor(np.asarray(values, dtype=float).tolist(), dtype=F64)


# ---- refusals


def test_a_leaf_is_not_written_while_recording():
    x = leaf([1, 2])
    for write in (
        lambda: x.add_(1),
        lambda: x.__setitem__(0, 1.0),
        lambda: x.__imul__(2),
        lambda: x.zero_(),
        lambda: x.copy_(constant([1, 2])),
    ):
        with pytest.raises(RuntimeError, match=r"a (view of a )?leaf Variable that requires grad"):
            write()
    assert x.tolist() == [1, 2] and x._version == 0
    with pytest.raises(RuntimeError, match=f"^{LEAF}"):
        x.mul_(2)


def test_a_view_of_a_leaf_is_not_written_while_recording():
    x = leaf([1, 2])
    with pytest.raises(RuntimeError, match=f"^{VIEW_OF_LEAF}"):
        x[0].add_(1)
    with pytest.raises(RuntimeError, match=f"^{VIEW_OF_LEAF}"):
        x.view(2)[1:] += 1
    assert x.tolist() == [1, 2]


def test_a_leaf_that_is_itself_a_view_of_a_constant_is_not_written():
    x = constant([[1, 2], [3, 4]]).t().requires_grad_()
    with pytest.raises(RuntimeError, match=r"leaf Variable that requires grad"):
        x.add_(1)
    assert x.tolist() == [[1, 3], [2, 4]]


def test_leaves_are_written_under_no_grad_and_keep_their_history():
    x = leaf([1, 2])
    y = x * 3
    with gradhook.no_grad():
        x.sub_(1)
        x[0] = 7
        x.view(2).mul_(2)
    assert x.tolist() == [14, 2] and x.is_leaf and x.requires_grad and x._version == 3
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_memory_that_overlaps_itself_is_not_written():
    t = constant([1, 2]).unsqueeze(1).expand(2, 3)
    with pytest.raises(
        RuntimeError,
        match=r"^unsupported operation: more than one element of the written-to tensor refers to a "
        r"single memory location. Please clone\(\) the tensor before performing the operation.",
    ):
        t.add_(1)
    assert t.tolist() == [[1, 1, 1], [2, 2, 2]]


def test_a_view_of_several_is_not_written_while_recording():
    y = leaf([[1, 2], [3, 4]]) * 1
    for v in (y.unbind(0)[0], y.split(1)[1], y.chunk(2)[0]):
        with pytest.raises(
            RuntimeError,
            match=r"is a view and is being modified inplace. This view "
            "is the output of a function that returns multiple views.",
        ):
            v.mul_(2)
    assert y.tolist() == [[1, 2], [3, 4]]


def test_a_view_made_under_no_grad_is_not_written_while_recording():
    y = leaf([1, 2]) * 1
    with gradhook.no_grad():
        v = y[0]
    with pytest.raises(
        RuntimeError, match=r"A view was created in no_grad mode and is being modified inplace with"
    ):
        v.mul_(y.detach()[1] * y[1])
    with gradhook.no_grad():
        v.mul_(2)
    assert y.tolist() == [2, 2]


def test_a_result_of_another_shape_or_a_wider_kind_of_dtype_is_refused():
    with pytest.raises(RuntimeError, match=r"^output with shape \[2\] doesn't match the broadcast"):
        gradhook.zeros(2).add_(gradhook.zeros(3, 2))
    with pytest.raises(
        RuntimeError, match=r"^result type Float can't be cast to the desired output"
    ):
        gradhook.zeros(2, dtype=gradhook.int64).add_(0.5)


def test_a_refused_write_changes_nothing():
    x = leaf([1, 2])
    y = x * 1
    node = y.grad_fn
    with pytest.raises(RuntimeError):
        y.add_(gradhook.zeros(3, 2, dtype=F64))
    assert y.tolist() == [1, 2] and y._version == 0 and y.grad_fn is node


@pytest.mark.parametrize("create_graph", [False, True], ids=["arrays", "create_graph"])
def test_a_stale_saved_tensor_names_the_op_and_both_versions(create_graph):
    x = leaf([1, 2])
    y = x * 2
    z = y * y
    y.add_(1)
    y.add_(1)
    with pytest.raises(RuntimeError, match=STALE) as caught:
        z.sum().backward(create_graph=create_graph)
    text = str(caught.value)
    assert "MulBackward0" in text and "is at version 2; expected version 0 instead" in text
    assert "DoubleTensor [2]" in text


def test_a_write_through_a_view_makes_what_was_saved_of_the_base_stale():
    x = leaf([1, 2])
    y = x * 2
    z = y.exp()
    y[0] = 5  # exp saved its result, not y
    w = z.sin()
    z[0].zero_()  # sin saved z
    with pytest.raises(RuntimeError, match=STALE):
        w.sum().backward()


def test_what_no_formula_saved_may_be_written():
    x = leaf([1, 2])
    y = x * 2
    z = y + 1
    y.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]
