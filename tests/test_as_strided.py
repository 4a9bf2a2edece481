"""as_strided: views of the base's memory, their gradients, in-place writes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook


def grid(*shape: int, **options) -> gradhook.Tensor:
    made = gradhook.arange(int(np.prod(shape)), dtype=gradhook.float64).reshape(shape)
    return made.clone().requires_grad_() if options else made.clone()


def test_it_is_a_view_from_where_the_tensor_begins_or_from_an_offset_in_the_base():
    x = grid(3, 4)
    assert gradhook.as_strided(x, (2, 2), (1, 2)).tolist() == [[0, 2], [1, 3]]
    assert x[1:].as_strided((2, 2), (1, 1)).tolist() == [[4, 5], [5, 6]]
    assert x[1:].as_strided((2, 2), (1, 1), 0).tolist() == [[0, 1], [1, 2]]
    assert x.t().as_strided((2,), (5,)).tolist() == [0, 5]
    x.as_strided((3,), (5,)).zero_()
    assert x.diagonal().tolist() == [0, 0, 0]
    assert x.as_strided((0, 2), (1, 1)).shape == (0, 2)
    assert x.as_strided_((2,), (1,), 3) is x and x.tolist() == [3, 4]


def test_a_gradient_is_summed_where_windows_overlap_and_shared_where_the_tensor_repeats():
    x = grid(4, requires_grad=True)
    x.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]
    x.grad = None
    x.expand(3, 4).as_strided((4,), (1,)).sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1]
    x.grad = None
    x[2:].as_strided((4,), (1,), 0).sum().backward()  # the first two are not of x[2:]
    assert x.grad.tolist() == [0, 0, 1, 1]


def test_an_in_place_write_into_the_view_enters_the_history_of_the_base():
    x = grid(2, 2, requires_grad=True)
    y = x * 1
    y.as_strided((2,), (3,)).mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [[5, 1], [1, 5]]
    x.grad = None
    y = x * 1
    y[1].as_strided((2,), (1,), 0).mul_(5)  # beside y[1], in the same base
    y.sum().backward()
    assert x.grad.tolist() == [[5, 5], [1, 1]]


def test_an_in_place_write_into_windows_enters_the_history_of_the_base():
    x = grid(4, requires_grad=True)
    y = x * 1
    y.unfold(0, 2, 2)[1].mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 5, 5]


def test_a_copy_shares_nothing_and_scatter_writes_where_the_view_reads():
    x, src = grid(3, 3, requires_grad=True), grid(2, 2, requires_grad=True)
    gradhook.as_strided_copy(x.detach(), (2,), (1,)).zero_()
    assert x[0, 1].item() == 1
    found = gradhook.as_strided_scatter(x, src, (2, 2), (1, 2), 1)
    assert found.tolist() == [[0, 0, 2], [1, 3, 5], [6, 7, 8]]
    found.sum().backward()
    assert src.grad.tolist() == [[1, 1], [1, 1]]
    assert x.grad.tolist() == [[1, 0, 0], [0, 0, 1], [1, 1, 1]]
    turned = grid(2, 3).t()
    assert turned.as_strided_scatter(gradhook.zeros(3, dtype=gradhook.float64), (3,), (1,)
                                     ).tolist() == [[0, 3], [0, 4], [0, 5]]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.as_strided((5, 5), (4, 1)), "out of bounds for storage of 12"),
        (lambda x: x[1:].as_strided((10,), (1,)), "storage offset 4 need 14"),
        (lambda x: x.as_strided((2,), (-1,)), "Negative strides"),
        (lambda x: x.as_strided((2,), (1, 1)), "mismatch in length"),
        (lambda x: x.as_strided((2,), (1,), -1), "invalid storage offset -1"),
        (lambda x: x.as_strided((-1,), (5,)), "negative size"),
        (lambda x: x.as_strided_scatter(x, (2,), (1,)), "src to have a size equal"),
    ],
)
def test_what_lies_outside_the_memory_is_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(grid(3, 4))
