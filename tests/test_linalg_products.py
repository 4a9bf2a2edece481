"""gradhook.linalg without a solver: norms, products of many matrices, LU, reflections."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import linalg


def test_many_matrices_are_multiplied_in_the_cheapest_order():
    from gradhook.overloads.linalg_norms import _splits

    sizes = [(10, 100), (100, 5), (5, 50)]
    assert _splits([gradhook.ones(*s) for s in sizes])[0, 2] == 1  # (AB)C: 7,500 and not 75,000
    assert linalg.multi_dot([gradhook.ones(3), gradhook.ones(3, 2), gradhook.ones(2)]).item() == 6
    with pytest.raises(RuntimeError, match="expected at least 2 tensors but got 1"):
        linalg.multi_dot([gradhook.ones(2, 2)])


def test_norms_refuse_orders_and_dimensions_they_lack():
    x = gradhook.ones(2, 2, 2)
    with pytest.raises(RuntimeError, match=r"the input must be 1D or 2D. Got 3D"):
        linalg.norm(x, 2)
    with pytest.raises(RuntimeError, match="Order 3 not supported"):
        linalg.matrix_norm(x, 3)
    with pytest.raises(RuntimeError, match="dims must be different"):
        linalg.matrix_norm(x, dim=(1, -2))
    with pytest.raises(RuntimeError, match="length 1 or 2"):
        linalg.norm(x, dim=(0, 1, 2))
    with pytest.raises(RuntimeError, match="cannot compute the inf norm on an empty tensor"):
        linalg.vector_norm(gradhook.ones(0), float("inf"))


def test_lu_factors_multiply_to_the_matrix():
    a = gradhook.tensor(np.random.default_rng(0).standard_normal((2, 4, 3)))
    p, lower, upper = linalg.lu(a)
    np.testing.assert_allclose((p @ lower @ upper).cpu().numpy(), a.cpu().numpy(), atol=1e-14)
    packed, pivots = linalg.lu_factor(a)
    again = gradhook.lu_unpack(packed, pivots)
    assert again.P.tolist() == p.tolist() and pivots.dtype == gradhook.int32


def test_reflections_multiply_to_orthonormal_columns():
    v = np.random.default_rng(1).standard_normal(3)
    v[0] = 1.0
    tau = 2 / (v @ v)
    a, factors = gradhook.tensor(v[:, None]), gradhook.tensor([tau], dtype=gradhook.float64)
    expected = np.eye(3) - tau * np.outer(v, v)
    found = linalg.householder_product(a, factors)
    np.testing.assert_allclose(found.cpu().numpy(), expected[:, :1], atol=1e-14)
    c = gradhook.eye(3, dtype=gradhook.float64)
    for left in (True, False):
        found = gradhook.ormqr(a, factors, c, left, transpose=True)
        np.testing.assert_allclose(found.cpu().numpy(), expected.T, atol=1e-14)


@pytest.mark.parametrize("complex_", [False, True])
def test_many_reflections_multiply_as_one_after_the_other(complex_):
    rng = np.random.default_rng(2)
    a, tau = rng.standard_normal((2, 6, 4)), rng.standard_normal((2, 4))
    if complex_:
        a, tau = a + 1j * rng.standard_normal(a.shape), tau + 1j * rng.standard_normal(tau.shape)
    tau[0, 1] = 0
    expected = np.stack([np.eye(6, dtype=a.dtype)] * 2)
    for batch, i in np.ndindex(2, 4):
        v = np.concatenate([np.zeros(i), [1.0], a[batch, i + 1 :, i]])
        one = np.eye(6) - tau[batch, i] * np.outer(v, v.conj())
        expected[batch] = expected[batch] @ one
    found = linalg.householder_product(gradhook.tensor(a), gradhook.tensor(tau))
    np.testing.assert_allclose(found.cpu().numpy(), expected[..., :4], rtol=1e-10, atol=1e-10)
    one = gradhook.eye(6, dtype=found.dtype).expand(2, 6, 6)
    for turned in (False, True):
        found = gradhook.ormqr(gradhook.tensor(a), gradhook.tensor(tau), one, True, turned)
        wanted = expected.conj().swapaxes(-1, -2) if turned else expected
        np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-10, atol=1e-10)


def test_powers_and_vanders_by_hand():
    a = gradhook.tensor([[1.0, 1.0], [0.0, 1.0]])
    assert gradhook.matrix_power(a, 5).tolist() == [[1, 5], [0, 1]]
    assert gradhook.matrix_power(a, 0).tolist() == [[1, 0], [0, 1]]
    assert linalg.vander(gradhook.tensor([2, 3]), N=3).tolist() == [[1, 2, 4], [1, 3, 9]]
    with pytest.raises(RuntimeError, match=r"N must be greater than 1\."):
        linalg.vander(gradhook.tensor([2]))


def test_vecdot_conjugates_its_first_input():
    x = gradhook.tensor([1j, 2.0])
    assert linalg.vecdot(x, x).item() == 5
    with pytest.raises(RuntimeError, match="to have the same dtype"):
        linalg.vecdot(x, gradhook.ones(2))
