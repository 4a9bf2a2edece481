"""cov, corrcoef, gradient, mode, index_reduce, put, copies of views: behaviours and errors.

Values and gradients of the table's ops: test_ops.py; against torch: the oracle.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradhook

X = np.random.default_rng(0).standard_normal((3, 5))


def grid(*shape: int) -> gradhook.Tensor:
    return gradhook.arange(int(np.prod(shape)), dtype=gradhook.float64).reshape(shape)


def same(found: gradhook.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_cov_is_numpys_with_weights_and_corrections():
    x = gradhook.tensor(X)
    f, a = np.array([1, 2, 1, 3, 1]), np.array([0.5, 1.0, 2.0, 0.25, 1.0])
    same(gradhook.cov(x), np.cov(X))
    same(x.cov(correction=0), np.cov(X, ddof=0))
    same(x.cov(fweights=gradhook.tensor(f)), np.cov(X, fweights=f))
    same(x.cov(aweights=gradhook.tensor(a)), np.cov(X, aweights=a))
    both = {"fweights": gradhook.tensor(f), "aweights": gradhook.tensor(a)}
    same(x.cov(**both), np.cov(X, fweights=f, aweights=a))
    same(gradhook.cov(x[0]), np.cov(X[0]))
    same(gradhook.cov(x + 1j * x.flip(1)), np.cov(X + 1j * X[:, ::-1]))


def test_corrcoef_is_numpys():
    x = gradhook.tensor(X, requires_grad=True)
    same(gradhook.corrcoef(x), np.corrcoef(X))
    assert gradhook.corrcoef(x[0]).item() == 1
    same(gradhook.corrcoef(x + 1j * x.flip(1)), np.corrcoef(X + 1j * X[:, ::-1]))
    gradhook.corrcoef(x)[0, 0].backward()
    same(x.grad, np.zeros_like(X))


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_is_numpys_for_distances_and_coordinates(order):
    x = gradhook.tensor(X)
    at = np.array([0.0, 0.5, 2.0, 2.25, 4.0])
    for found, expected in zip(
        gradhook.gradient(x, edge_order=order), np.gradient(X, edge_order=order), strict=True
    ):
        same(found, expected)
    found = gradhook.gradient(x, spacing=(2.0, gradhook.tensor(at)), edge_order=order)
    for f, e in zip(found, np.gradient(X, 2.0, at, edge_order=order), strict=True):
        same(f, e)
    (one,) = gradhook.gradient(x, spacing=0.5, dim=-1, edge_order=order)
    same(one, np.gradient(X, 0.5, axis=1, edge_order=order))


def test_gradient_passes_gradients_on():
    x = grid(4).requires_grad_()
    gradhook.gradient(x)[0].sum().backward()
    assert x.grad.tolist() == [-1.5, 0.5, -0.5, 1.5]


def test_the_gradient_of_mode_goes_to_the_element_it_names():
    x = gradhook.tensor([[2.0, 1.0, 2.0], [3.0, 3.0, 1.0]], requires_grad=True)
    values, indices = gradhook.mode(x, 1)
    assert values.tolist() == [2, 3] and indices.tolist() == [2, 1]
    (values * gradhook.tensor([1.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [[0, 0, 1], [0, 5, 0]]
    assert x.mode(0, keepdim=True).values.shape == (1, 3)


def test_frexp_and_fill_diagonal():
    mantissa, exponent = gradhook.frexp(gradhook.tensor([3.0, 0.0, -0.1]))
    assert exponent.tolist() == [2, 0, -3] and exponent.dtype == gradhook.int32
    assert mantissa.tolist() == pytest.approx([0.75, 0, -0.8])
    tall = gradhook.zeros(5, 2)
    assert tall.clone().fill_diagonal_(7).tolist() == [[7, 0], [0, 7], [0, 0], [0, 0], [0, 0]]
    wrapped = tall.clone().fill_diagonal_(7, wrap=True)
    assert wrapped.tolist() == [[7, 0], [0, 7], [0, 0], [7, 0], [0, 7]]
    assert gradhook.zeros(2, 2, 2).fill_diagonal_(1).sum().item() == 2
    x = gradhook.ones(2, 2, requires_grad=True)
    x.clone().fill_diagonal_(3).sum().backward()
    assert x.grad.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce_reduces_the_slices_named(reduce, include_self):
    index = [2, 0, 2]
    source = X[:, :3] + 0.5
    expected = X[:, :3].T.copy()
    for k in sorted(set(index)):
        rows = [source.T[j] for j in range(3) if index[j] == k]
        rows = [expected[k], *rows] if include_self else rows
        expected[k] = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce](
            rows, 0
        )
    x, s = gradhook.tensor(X[:, :3]), gradhook.tensor(source)
    args = (1, gradhook.tensor(index), s, reduce)
    same(gradhook.index_reduce(x, *args, include_self=include_self), expected.T)
    same(x.clone().index_reduce_(*args, include_self=include_self), expected.T)


def test_put_writes_or_adds_at_flat_positions():
    x = grid(2, 3).requires_grad_()
    source = gradhook.tensor([10.0, 20.0], dtype=gradhook.float64, requires_grad=True)
    found = gradhook.put(x, gradhook.tensor([0, -1]), source)
    assert found.tolist() == [[10, 1, 2], [3, 4, 20]]
    found.sum().backward()
    assert x.grad.tolist() == [[0, 1, 1], [1, 1, 0]] and source.grad.tolist() == [1, 1]
    added = x.detach().clone().put_(gradhook.tensor([4, 4]), source.detach(), accumulate=True)
    assert added.tolist() == [[0, 1, 2], [3, 34, 5]]


def test_a_view_copy_shares_nothing_and_is_the_view():
    x = grid(2, 3, 4)
    calls = {
        "alias": (), "detach": (), "diagonal": (1, 0, 2), "expand": ((5, 2, 3, 4),),
        "narrow": (1, 1, 2), "permute": ((2, 0, 1),), "select": (2, 1), "slice": (1, 0, 3, 2),
        "split": (1, 0), "split_with_sizes": ((1, 2), 1), "squeeze": (), "transpose": (0, 2),
        "unbind": (1,), "unfold": (2, 2, 1), "unsqueeze": (0,), "view": ((6, 4),),
    }  # fmt: skip
    for name, args in calls.items():
        copied = getattr(gradhook, f"{name}_copy")(x, *args)
        for t in copied if isinstance(copied, tuple) else (copied,):
            before = x.clone()
            t.zero_()
            assert x.equal(before), name
    assert gradhook.t_copy(grid(2, 3)).shape == (3, 2)
    assert gradhook.permute_copy(x, (2, 0, 1)).equal(x.permute(2, 0, 1))
    assert [t.shape for t in gradhook.unsafe_chunk(x, 2, 2)] == [(2, 3, 2)] * 2
    assert [t.tolist() for t in gradhook.unsafe_split(grid(3), 2)] == [[0, 1], [2]]


def test_combinations_and_products_come_in_the_order_of_itertools():
    v = gradhook.tensor([5, 6, 7])
    pairs = [list(p) for p in itertools.combinations([5, 6, 7], 2)]
    assert gradhook.combinations(v).tolist() == pairs
    replaced = [list(p) for p in itertools.combinations_with_replacement([5, 6, 7], 3)]
    assert gradhook.combinations(v, 3, with_replacement=True).tolist() == replaced
    assert gradhook.combinations(v, 0).shape == (0,) and gradhook.combinations(v, 4).shape == (0, 4)
    product = [list(p) for p in itertools.product([5, 6, 7], [1, 2])]
    assert gradhook.cartesian_prod(v, gradhook.tensor([1, 2])).tolist() == product
    assert gradhook.cartesian_prod(v) is v


def test_fill_and_constant_pad():
    x = grid(2, 3).requires_grad_()
    assert gradhook.fill(x, 2).tolist() == [[2] * 3] * 2
    value = gradhook.tensor(3.0, dtype=gradhook.float64, requires_grad=True)
    gradhook.fill(x, value).sum().backward()
    assert value.grad.item() == 6 and x.grad.sum().item() == 0
    padded = gradhook.constant_pad_nd(x, (1, -1, 0, 1), 9)
    assert padded.tolist() == [[9, 0, 1], [9, 3, 4], [9, 9, 9]]


X3, INTS = grid(2, 3), gradhook.tensor([0, 1])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: g.cov(X3[None]), RuntimeError, "two or fewer dimensions"),
        (lambda g: g.cov(X3 > 0), RuntimeError, "bool dtype"),
        (lambda g: g.cov(X3, fweights=INTS), RuntimeError, "got 2 != 3"),
        (lambda g: g.cov(X3, fweights=X3[0]), RuntimeError, "fweights to have integral dtype"),
        (lambda g: g.cov(X3, aweights=INTS), RuntimeError, "aweights to have floating point"),
        (lambda g: g.cov(X3, fweights=X3.long()), RuntimeError, "one or fewer dimensions"),
        (lambda g: g.corrcoef(X3[None]), RuntimeError, "corrcoef"),
        (lambda g: g.gradient(X3, edge_order=3), RuntimeError, "edge_order=1 and"),
        (lambda g: g.gradient(X3, edge_order=2), RuntimeError, r"at least edge_order\+1"),
        (lambda g: g.gradient(X3, dim=(0, -2)), RuntimeError, "multiple times"),
        (lambda g: g.gradient(X3, spacing=(1, 2, 3)), RuntimeError, "list of length 3"),
        (lambda g: g.gradient(X3, spacing=[INTS], dim=1), RuntimeError, r"3 points.*\[2\]"),
        (lambda g: g.mode(X3[:, :0]), IndexError, "non-zero size"),
        (lambda g: g.mode(X3 + 0j), NotImplementedError, "complex"),
        (lambda g: g.frexp(INTS), RuntimeError, "floating-point"),
        (lambda g: g.renorm(X3, -1, 0, 1), RuntimeError, "p=-1"),
        (lambda g: g.renorm(X3, 2, 0, -1), RuntimeError, "maxnorm to be >= 0"),
        (lambda g: g.renorm(X3[0], 2, 0, 1), RuntimeError, "at least 2 dimensions"),
        (lambda g: g.renorm(X3.long(), 2, 0, 1), RuntimeError, "floating point or complex"),
        (lambda g: g.vander(X3), RuntimeError, "one-dimensional"),
        (lambda g: g.vander(INTS, N=-1), RuntimeError, "non-negative"),
        (lambda g: g.trapezoid(X3, X3, dx=1), TypeError, "x or dx"),
        (lambda g: g.trapezoid(X3, INTS), RuntimeError, "one `x` value"),
        (lambda g: g.trapezoid(X3, dx=True), RuntimeError, "real number"),
        (lambda g: g.trapezoid(X3.sum()), IndexError, "no dimensions"),
        (lambda g: g.combinations(X3), RuntimeError, "1D vector"),
        (lambda g: g.combinations(INTS, -1), RuntimeError, "non-negative"),
        (lambda g: g.cartesian_prod(X3), RuntimeError, "1D vector"),
        (lambda g: g.fill(X3, X3), RuntimeError, "0-dimension"),
        (lambda g: g.constant_pad_nd(X3, (1,)), RuntimeError, "must be even"),
        (lambda g: g.constant_pad_nd(X3, (1,) * 6), RuntimeError, "Pad length is 6"),
        (lambda g: g.constant_pad_nd(X3, (-2, -2)), RuntimeError, "crops more than the 3"),
        (lambda g: g.put(X3, X3, X3), RuntimeError, "long tensor for index"),
        (lambda g: g.put(X3, INTS, INTS), RuntimeError, "same dtype"),
        (lambda g: g.put(X3, INTS, X3), IndexError, "source.numel"),
        (lambda g: X3.index_reduce(0, INTS, X3, "sum"), RuntimeError, "prod, mean, amax or amin"),
        (lambda g: X3.index_reduce(0, INTS[:1], X3, "amax"), RuntimeError, "Number of indices"),
        (lambda g: X3.index_reduce(0, INTS[None], X3, "amax"), IndexError, "a vector"),
        (lambda g: X3.index_reduce(0, INTS, X3.float(), "amax"), RuntimeError, "scalar type"),
        (lambda g: X3.index_reduce(0, INTS * 1.0, X3, "amax"), RuntimeError, "int32/int64"),
        (lambda g: X3.index_reduce(0, INTS, X3[:, 1:], "amax"), RuntimeError, "must match self"),
        (lambda g: X3[0].fill_diagonal_(1), RuntimeError, "larger than 1"),
        (lambda g: g.zeros(2, 3, 3).fill_diagonal_(1), RuntimeError, "equal length"),
        (lambda g: g.i0(X3 + 0j), NotImplementedError, "real numbers"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call(gradhook)


@pytest.mark.cpu_only(reason="values on a device are not looked at")
def test_weights_that_make_no_covariance_are_refused_on_the_cpu():
    with pytest.raises(RuntimeError, match="fweights cannot be negative"):
        gradhook.cov(X3, fweights=gradhook.tensor([1, -2, 1]))
    with pytest.raises(RuntimeError, match="sum to zero"):
        gradhook.cov(X3, fweights=gradhook.tensor([0, 0, 0]))
