"""gradhook.masked against NumPy's functions over the kept elements of each row."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import gradhook
from gradhook import masked

X = np.array([[1.5, -2.0, 0.5, 3.0], [0.25, 4.0, -1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
M = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]], bool)

REDUCTIONS = {
    "sum": np.sum,
    "prod": np.prod,
    "amax": np.max,
    "amin": np.min,
    "mean": np.mean,
    "median": lambda r: np.sort(r)[(len(r) - 1) // 2],
    "norm": np.linalg.norm,
    "logsumexp": scipy.special.logsumexp,
}
ALONG = {
    "softmax": scipy.special.softmax,
    "softmin": lambda r: scipy.special.softmax(-r),
    "log_softmax": scipy.special.log_softmax,
}


def tensors(grad: bool = False) -> tuple[gradhook.Tensor, gradhook.Tensor]:
    return gradhook.tensor(X, requires_grad=grad), gradhook.tensor(M)


def called(name: str, x: gradhook.Tensor, *dim: int, **options) -> gradhook.Tensor:
    return getattr(masked, name)(x, *((2.0, *dim) if name == "norm" else dim), **options)


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_a_reduction_sees_only_what_is_kept_and_so_does_its_gradient(name):
    x, m = tensors(grad=True)
    found = called(name, x, 1, mask=m)
    expected = [REDUCTIONS[name](r[k]) for r, k in zip(X, M, strict=True)]
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected)
    assert called(name, x, 1, keepdim=True, mask=m).shape == (3, 1)
    found.sum().backward()
    assert (x.grad.cpu().numpy()[~M] == 0).all()
    assert (x.grad.cpu().numpy()[M] != 0).any()


@pytest.mark.parametrize("correction", [0, 1])
def test_a_variance_divides_by_the_number_kept(correction):
    x, m = tensors()
    found = masked.var(x, 1, correction=correction, mask=m)
    expected = [np.var(r[k], ddof=correction) for r, k in zip(X, M, strict=True) if k.sum() > 1]
    np.testing.assert_allclose(found.cpu().numpy()[:2], expected)
    np.testing.assert_allclose(
        masked.std(x, 1, bool(correction), mask=m).cpu().numpy()[:2], np.sqrt(expected)
    )
    with pytest.raises(RuntimeError, match="Only one of unbiased and correction"):
        masked.var(x, 1, True, correction=1)


@pytest.mark.parametrize("name", sorted(ALONG))
def test_a_normalization_is_that_of_what_is_kept(name):
    x, m = tensors()
    found = getattr(masked, name)(x, 1, mask=m).cpu().numpy()
    for row, f, k in zip(X, found, M, strict=True):
        np.testing.assert_allclose(f[k], ALONG[name](row[k]))
        assert (f[~k] == (-math.inf if name == "log_softmax" else 0)).all()


def test_running_sums_products_and_normalize_count_masked_elements_as_nothing():
    x, m = tensors()
    filled = np.where(M, X, 0)
    np.testing.assert_allclose(masked.cumsum(x, 1, mask=m).cpu().numpy(), filled.cumsum(1))
    np.testing.assert_allclose(
        masked.cumprod(x, 1, mask=m).cpu().numpy(), np.where(M, X, 1).cumprod(1)
    )
    np.testing.assert_allclose(
        masked.normalize(x, 2.0, 1, mask=m).cpu().numpy(),
        filled / np.linalg.norm(filled, axis=1, keepdims=True),
    )
    np.testing.assert_allclose(
        masked.logaddexp(x, x, input_mask=m).cpu().numpy(), np.where(M, X + np.log(2), X)
    )


def test_nothing_kept_gives_the_identity_or_nan():
    x, none = gradhook.ones(2), gradhook.zeros(2, dtype=gradhook.bool)
    values = {n: called(n, x, 0, mask=none).item() for n in ("sum", "prod", "amax", "amin", "norm")}
    assert values == {"sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf, "norm": 0}
    assert masked.logsumexp(x, 0, mask=none).item() == -math.inf
    for name in ("mean", "median", "var"):
        assert math.isnan(getattr(masked, name)(x, 0, mask=none).item())
    whole = x.to(gradhook.int32)
    assert masked.amax(whole, 0, mask=none).item() == -(2**31)
    assert masked.amin(whole, 0, mask=none).item() == 2**31 - 1


def test_dims_masks_and_dtypes_have_the_forms_of_torch():
    x, m = tensors()
    assert masked.sum(x, mask=m).item() == masked.sum(x, (), mask=m).item() == X[M].sum()
    assert masked.prod(x, (0, 1), mask=m).item() == pytest.approx(X[M].prod())
    assert masked.sum(x, 0, mask=gradhook.tensor([1.0, 0, 0, 1])).tolist() == [2.75, 0, 0, 9]
    assert masked.sum(x.int(), 1, dtype=gradhook.float64, mask=m).dtype == gradhook.float64
    assert masked.sum(x.int(), 1, mask=m).dtype == gradhook.int64
    assert masked.median(x.int(), 1, mask=m).tolist() == [1, -1, 4]
    assert masked.argmax(x, 1, mask=m).tolist() == [3, 1, 3]
    assert masked.argmin(x, 1, mask=m).tolist() == [2, 2, 3]
    assert masked.var(x, 1).shape == (3,) and masked.mean(x).shape == ()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, m: masked.sum(x, 1, mask=m[None]), IndexError, "2 dimensions, found one of 3"),
        (lambda x, m: masked.sum(x, 1, mask=m[:, :3]), RuntimeError, "expanded size"),
        (lambda x, m: masked.sum(x, (0, 0)), RuntimeError, "multiple times"),
        (lambda x, m: masked.softmax(x, 2), IndexError, "out of range"),
        (lambda x, m: masked.mean(x.int(), 1), ValueError, "floating point or complex"),
        (lambda x, m: masked.amax(x > 0, 1, mask=m), NotImplementedError, "identity of amax"),
        (lambda x, m: masked.median(x.int(), 1, mask=m & False), ValueError, "fully masked out"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call(*tensors())
