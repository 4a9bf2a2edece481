"""Functions with several forms: each form gives what PyTorch documents for it."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook

X = np.array([[1.0, 4.0, 2.0], [3.0, 0.0, 5.0]])


def x(**options) -> gradhook.Tensor:
    return gradhook.tensor(X, **options)


def equal(found, expected) -> None:
    found = found.detach().cpu().numpy()
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_max_and_min_have_three_forms():
    equal(x().max(), 5.0)
    found = gradhook.max(x(), 1)
    equal(found.values, [4.0, 5.0])
    equal(found.indices, [1, 2])
    assert type(found) is gradhook.return_types.max
    values, indices = x().min(dim=0, keepdim=True)
    equal(values, [[1.0, 0.0, 2.0]])
    equal(indices, [[0, 1, 0]])
    equal(gradhook.max(x(), gradhook.tensor(2.5, dtype=gradhook.float64)), np.maximum(X, 2.5))


def test_equal_maxima_share_the_gradient_but_max_of_a_dim_gives_it_to_its_index():
    t = gradhook.tensor([2.0, 2.0, 1.0], requires_grad=True)
    t.max().backward()
    assert t.grad.tolist() == [0.5, 0.5, 0.0]
    t.grad = None
    t.max(0).values.backward()
    assert t.grad.tolist() == [1.0, 0.0, 0.0]


def test_std_and_var_take_unbiased_dim_and_correction():
    equal(x().std(), np.std(X, ddof=1))
    equal(x().std(False), np.std(X))
    equal(x().var(1), np.var(X, axis=1, ddof=1))
    equal(x().var(dim=0, unbiased=False), np.var(X, axis=0))
    equal(gradhook.var(x(), (0, 1), correction=2, keepdim=True), [[np.var(X, ddof=2)]])
    std, mean = gradhook.std_mean(x(), 1)
    equal(std, np.std(X, axis=1, ddof=1))
    equal(mean, X.mean(1))


def test_sums_of_integers_are_int64_and_means_of_them_an_error():
    t = gradhook.tensor([[True, False], [True, True]])
    assert t.sum().dtype == gradhook.int64 and t.sum().item() == 3
    assert gradhook.tensor([1, 2], dtype=gradhook.int32).prod().dtype == gradhook.int64
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        gradhook.tensor([1, 2]).mean()
    equal(gradhook.tensor([1, 2]).mean(dtype=gradhook.float64), 1.5)


def test_add_and_sub_scale_by_alpha():
    equal(gradhook.add(x(), x(), alpha=2), 3 * X)
    equal(x().sub(1, alpha=3), X - 3)
    with pytest.raises(RuntimeError, match="must not be a floating point number"):
        gradhook.add(gradhook.tensor([1]), gradhook.tensor([1]), alpha=0.5)
    t = x()
    assert t.add_(x(), alpha=-1) is t
    equal(t, np.zeros((2, 3)))


@pytest.mark.parametrize(("mode", "expected"), [("floor", [-4, 3]), ("trunc", [-3, 3])])
def test_div_rounds_down_or_toward_zero(mode, expected):
    t = gradhook.tensor([-7, 7])
    found = gradhook.div(t, 2, rounding_mode=mode)
    assert found.tolist() == expected and found.dtype == gradhook.int64
    assert t.div_(2, rounding_mode=mode).tolist() == expected


def test_div_of_integers_is_true_division_in_the_default_dtype():
    assert (gradhook.tensor([1, 2]) / 2).tolist() == [0.5, 1.0]
    assert (gradhook.tensor([1, 2]) / 2).dtype == gradhook.get_default_dtype()
    with pytest.raises(RuntimeError, match="'trunc', or 'floor' but found 'up'"):
        gradhook.div(gradhook.tensor([1]), 2, rounding_mode="up")


def test_where_promotes_numbers_and_without_values_gives_indices():
    mask = gradhook.tensor(X > 2)
    equal(gradhook.where(mask, x(), 0), np.where(X > 2, X, 0))
    assert gradhook.where(mask, 1, 0).dtype == gradhook.int64
    rows, columns = gradhook.where(mask)
    assert rows.tolist() == [0, 1, 1] and columns.tolist() == [1, 0, 2]


def test_clamp_takes_numbers_tensors_and_one_limit():
    equal(x().clamp(1, 3), np.clip(X, 1, 3))
    equal(x().clamp(max=2), np.minimum(X, 2))
    low = gradhook.tensor([2.0, 3.0, 1.0], dtype=gradhook.float64)
    equal(x().clamp(min=low), np.maximum(X, [2, 3, 1]))
    assert gradhook.tensor([1, 5]).clamp(min=1.5).dtype == gradhook.get_default_dtype()
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max'"):
        x().clamp()


def test_split_chunk_and_tensor_split_are_views_of_the_documented_sizes():
    t = gradhook.arange(7)
    assert [p.tolist() for p in t.split(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [len(p) for p in t.split([2, 5])] == [2, 5]
    assert [len(p) for p in t.chunk(3)] == [3, 3, 1]
    assert [len(p) for p in t.tensor_split(3)] == [3, 2, 2]
    assert [p.tolist() for p in t.tensor_split((2, 5))] == [[0, 1], [2, 3, 4], [5, 6]]
    t.split(3)[0].fill_(9)
    assert t.tolist() == [9, 9, 9, 3, 4, 5, 6]
    with pytest.raises(RuntimeError, match="sum exactly to 7"):
        t.split([3, 3])


def test_shapes_come_as_numbers_one_sequence_or_by_name():
    t = gradhook.zeros(2, 3, 4)
    for found in (t.permute(2, 0, 1), t.permute((2, 0, 1)), gradhook.permute(t, dims=(2, 0, 1))):
        assert tuple(found.shape) == (4, 2, 3)
    for found in (t.reshape(6, 4), t.reshape((6, -1)), gradhook.reshape(t, shape=(6, 4))):
        assert tuple(found.shape) == (6, 4)
    assert tuple(t.expand(5, -1, -1, -1).shape) == (5, 2, 3, 4)
    assert tuple(t.T.shape) == (4, 3, 2) and tuple(t.mT.shape) == (2, 4, 3)


def test_view_refuses_what_reshape_copies():
    t = x().t()
    assert tuple(t.reshape(6).shape) == (6,)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        t.view(6)
    with pytest.raises(RuntimeError, match=r"shape '\[4, 2\]' is invalid for input of size 6"):
        x().reshape(4, 2)


def test_conversions_that_change_nothing_return_the_tensor_itself():
    t = x()
    assert t.to(gradhook.float64) is t and t.double() is t
    assert t.to(t.device) is t and t.contiguous() is t
    assert t.to(gradhook.float64, copy=True) is not t
    assert t.float().dtype == gradhook.float32 and t.long().tolist() == [[1, 4, 2], [3, 0, 5]]
    assert t.type() == "torch.DoubleTensor" and t.bool().dtype == gradhook.bool


def test_a_cast_takes_the_gradient_back_to_the_old_dtype():
    t = gradhook.ones(2, requires_grad=True)
    t.double().sum().backward()
    assert t.grad.dtype == gradhook.float32 and t.grad.tolist() == [1.0, 1.0]


def test_sort_topk_and_kthvalue_have_names_and_put_nan_last():
    t = gradhook.tensor([2.0, float("nan"), 1.0, 2.0])
    assert t.sort().indices.tolist() == [2, 0, 3, 1]
    assert t.sort(descending=True, stable=True).indices.tolist() == [1, 0, 3, 2]
    assert t[[0, 2]].topk(1).values.tolist() == [2.0]
    assert t.kthvalue(2).values.item() == 2.0
    assert t.argsort().tolist() == [2, 0, 3, 1]


def test_einsum_takes_an_equation_a_list_of_operands_or_number_lists():
    a, b = gradhook.tensor(X), gradhook.tensor(X.T.copy())
    for found in (
        gradhook.einsum("ij,jk->ik", a, b),
        gradhook.einsum("ij,jk", [a, b]),
        gradhook.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    ):
        equal(found, X @ X.T)
    with pytest.raises(RuntimeError, match="subscript"):
        gradhook.einsum("ij,jk->ik", a, a[:, :2])
    with pytest.raises(RuntimeError, match="fewer operands"):
        gradhook.einsum("ij,jk", a)


def test_in_place_forms_change_the_tensor_and_return_it():
    t = x()
    for change, expected in (
        (lambda: t.fill_(2), np.full((2, 3), 2.0)),
        (lambda: t.masked_fill_(t > 1, 3), np.full((2, 3), 3.0)),
        (lambda: t.copy_(gradhook.tensor([1, 2, 3])), np.tile([1.0, 2.0, 3.0], (2, 1))),
        (lambda: t.clamp_(max=2), np.tile([1.0, 2.0, 2.0], (2, 1))),
        (lambda: t.pow_(2), np.tile([1.0, 4.0, 4.0], (2, 1))),
        (lambda: t.zero_(), np.zeros((2, 3))),
    ):
        assert change() is t
        equal(t, expected)
    u = gradhook.zeros(1, 3)
    assert u.squeeze_() is u and tuple(u.shape) == (3,)
    assert tuple(u.unsqueeze_(1).shape) == (3, 1)


def test_powers_of_integers_follow_torch():
    t = gradhook.tensor([1, 2, -1])
    assert (t**2).tolist() == [1, 4, 1] and (t**2).dtype == gradhook.int64
    assert (t.abs() ** 0.5).dtype == gradhook.get_default_dtype()
    assert (2 ** gradhook.tensor([-1, 0, 3])).tolist() == [0, 1, 8]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        t**-1


def test_bool_subtraction_and_negation_say_what_to_use():
    t = gradhook.tensor([True])
    with pytest.raises(RuntimeError, match="logical_xor"):
        t - t
    with pytest.raises(RuntimeError, match="logical_not"):
        t.neg()


def test_repeat_interleave_gather_and_scatter_forms():
    t = gradhook.tensor([1, 2, 3])
    assert t.repeat_interleave(2).tolist() == [1, 1, 2, 2, 3, 3]
    assert t.repeat_interleave(gradhook.tensor([1, 0, 2])).tolist() == [1, 3, 3]
    index = gradhook.tensor([[2, 0, 1], [0, 0, 2]])
    equal(x().gather(1, index), np.take_along_axis(X, index.cpu().numpy(), 1))
    assert gradhook.zeros(2, 3).scatter(1, index, 1.0).tolist() == [[1, 1, 1], [1, 0, 1]]


@pytest.mark.cpu_only(reason="values are checked on the CPU only: on a device it waits")
def test_gather_names_the_index_that_is_out_of_bounds():
    index = gradhook.tensor([[2, 0, 1], [0, 0, 3]])
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 1 with size 3"):
        x().gather(1, index)


def test_tests_of_equality_return_python_bools():
    assert gradhook.equal(x(), x()) is True and gradhook.allclose(x(), x() + 1e-9) is True
    assert gradhook.equal(x(), x()[0]) is False
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not int"):
        gradhook.eq(1, x())
