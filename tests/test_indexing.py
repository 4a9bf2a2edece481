"""tensor[index] and tensor[index] = value: index expressions, views, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import share_memory

import gradhook

SHAPE = (3, 4, 5)
ROWS = np.array([2, 0, 2])
COLUMNS = np.array([1, 3, 0])
MASK = np.arange(12).reshape(3, 4) % 3 == 0


def tensor(requires_grad: bool = False) -> gradhook.Tensor:
    values = np.arange(60.0).reshape(SHAPE)
    return gradhook.tensor(values).requires_grad_(requires_grad)


def as_index(item):
    """NumPy's index with its arrays as Tensors."""
    if isinstance(item, tuple):
        return tuple(as_index(i) for i in item)
    return gradhook.tensor(item) if isinstance(item, np.ndarray) else item


BASIC = [
    1,
    -1,
    (1, 2),
    (1, 2, 3),
    slice(1, None),
    slice(None, -1, 2),
    (slice(None), 2),
    (Ellipsis, 0),
    (0, Ellipsis, slice(1, 4)),
    None,
    (slice(None), None, 1),
    (),
    Ellipsis,
    (slice(5, 9), 0),
]
ADVANCED = [
    ROWS,
    (slice(None), COLUMNS),
    (ROWS, COLUMNS),
    (ROWS, slice(None), COLUMNS),
    (ROWS[:, None], COLUMNS),
    (ROWS, slice(1, 3)),
    (Ellipsis, COLUMNS),
    (None, ROWS),
    MASK,
    MASK[:, 0],
    (slice(None), MASK[0]),
    np.zeros(0, np.int64),
    (ROWS, COLUMNS, COLUMNS),
]


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_ints_slices_none_and_ellipsis_give_a_view_with_numpys_values(index):
    t = tensor()
    found = t[as_index(index)]
    np.testing.assert_array_equal(found.cpu().numpy(), t.cpu().numpy()[index])
    if found.numel():
        assert share_memory(found, t)


@pytest.mark.parametrize("index", ADVANCED, ids=str)
def test_index_tensors_give_a_copy_with_numpys_values(index):
    t = tensor()
    found = t[as_index(index)]
    np.testing.assert_array_equal(found.cpu().numpy(), t.cpu().numpy()[index])
    assert not share_memory(found, t)


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=str)
def test_the_gradient_counts_how_often_an_element_was_taken(index):
    t = tensor(requires_grad=True)
    t[as_index(index)].sum().backward()
    expected = np.zeros(SHAPE)
    np.add.at(expected, index, 1)
    np.testing.assert_array_equal(t.grad.cpu().numpy(), expected)


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=str)
def test_writing_a_number_or_a_tensor_changes_what_numpy_would_change(index):
    for value in (7.0, np.array(2.5)):
        t = tensor()
        expected = t.cpu().numpy().copy()
        expected[index] = value
        t[as_index(index)] = as_index(value)
        np.testing.assert_array_equal(t.cpu().numpy(), expected)


@pytest.mark.parametrize("index", [1, (slice(None), 2), ROWS[:2], MASK], ids=str)
def test_a_written_value_gets_the_gradient_of_its_place_and_the_old_one_none(index):
    base = tensor(requires_grad=True)
    picked = np.arange(60.0).reshape(SHAPE)[index]
    value = gradhook.tensor(np.zeros_like(picked)).requires_grad_()
    t = base * 1
    t[as_index(index)] = value
    weights = np.arange(60.0).reshape(SHAPE) + 1
    (t * gradhook.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(value.grad.cpu().numpy(), weights[index])
    weights[index] = 0
    np.testing.assert_array_equal(base.grad.cpu().numpy(), weights)


def test_an_int_before_an_index_tensor_is_applied_first_as_in_torch():
    t = tensor()
    found = t[0, :, gradhook.tensor([1, 3])]
    np.testing.assert_array_equal(found.cpu().numpy(), t.cpu().numpy()[0][:, [1, 3]])


def test_lists_ranges_and_numpy_ints_index_like_tensors_and_ints():
    t = tensor()
    np.testing.assert_array_equal(t[[0, 2]].cpu().numpy(), t.cpu().numpy()[[0, 2]])
    np.testing.assert_array_equal(t[range(2)].cpu().numpy(), t.cpu().numpy()[[0, 1]])
    np.testing.assert_array_equal(t[np.int64(1)].cpu().numpy(), t.cpu().numpy()[1])
    np.testing.assert_array_equal(t[gradhook.tensor(1)].cpu().numpy(), t.cpu().numpy()[1])
    np.testing.assert_array_equal(t[[True, False, True]].cpu().numpy(), t.cpu().numpy()[[0, 2]])


def test_a_bool_adds_a_dimension_of_one_or_zero():
    t = tensor()
    assert tuple(t[True].shape) == (1, *SHAPE)
    assert tuple(t[False].shape) == (0, *SHAPE)


def test_a_value_with_leading_ones_is_written_and_cast():
    t = gradhook.zeros(3, 2, dtype=gradhook.int64)
    t[1] = gradhook.tensor([[1.7, 2.2]])
    assert t.tolist() == [[0, 0], [1, 2], [0, 0]]


def test_the_index_is_copied_so_a_later_change_does_not_reach_the_gradient():
    t, index = tensor(requires_grad=True), gradhook.tensor([0, 1])
    found = t[index]
    index.zero_()
    found.sum().backward()
    assert t.grad[1].sum().item() == 20


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (3, IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        ((0, -5), IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        pytest.param(
            *(np.array([3]), IndexError, "out of bounds"),
            marks=pytest.mark.cpu_only(reason="values are not read on a device: it would wait"),
        ),
        (MASK[:2], IndexError, r"The shape of the mask \[2, 4\] at index 0 does not match"),
        ((ROWS, COLUMNS[:2]), IndexError, "could not be broadcast together"),
        (np.array([0.5]), IndexError, "must be long, int, byte or bool"),
        ("a", TypeError, "only integers, slices"),
    ],
    ids=str,
)
def test_a_bad_index_names_what_was_found(index, error, words):
    t = tensor()
    with pytest.raises(error, match=words):
        t[as_index(index)]
    with pytest.raises(error, match=words):
        t[as_index(index)] = 0.0


def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written():
    t = tensor()
    before = t.cpu().numpy().copy()
    with pytest.raises(RuntimeError, match="broadcast"):
        t[0] = gradhook.zeros(3)
    with pytest.raises(RuntimeError, match="broadcast"):
        t[gradhook.tensor([0, 1])] = gradhook.zeros(7)
    np.testing.assert_array_equal(t.cpu().numpy(), before)
