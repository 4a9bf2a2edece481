"""gradhook.linalg: what it refuses, empty matrices, names of results, and what no formula shows."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import linalg

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
GOOD = [[2.0, 1.0], [1.0, 3.0]]


@pytest.mark.cpu_only(reason="a device is not waited for")
def test_a_singular_matrix_is_named_with_its_place_in_the_batch():
    with pytest.raises(linalg.LinAlgError, match=r"^linalg.inv: The diagonal element 2 is zero"):
        linalg.inv(gradhook.tensor(SINGULAR))
    with pytest.raises(linalg.LinAlgError, match=r"^linalg.inv: \(Batch element 1\): The diag"):
        gradhook.inverse(gradhook.tensor([GOOD, SINGULAR]))
    with pytest.raises(linalg.LinAlgError, match="solve: The solver failed because"):
        linalg.solve(gradhook.tensor(SINGULAR), gradhook.ones(2))


@pytest.mark.cpu_only(reason="a device is not waited for")
def test_a_matrix_that_is_not_positive_definite_is_named_with_its_leading_minor():
    with pytest.raises(linalg.LinAlgError, match=r"leading minor of order 2 is not positive"):
        linalg.cholesky(gradhook.tensor([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.cpu_only(reason="a device is not waited for")
@pytest.mark.parametrize("name", ["svd", "svdvals", "eig", "pinv"])
def test_a_matrix_that_is_not_finite_is_a_linear_algebra_error(name):
    with pytest.raises(RuntimeError, match=r"finite|NaN"):
        getattr(linalg, name)(gradhook.full((2, 2), float("nan")))


def test_functions_with_info_say_which_matrix_failed_and_solve_the_others():
    both = gradhook.tensor([SINGULAR, GOOD])
    inverse, info = linalg.inv_ex(both)
    assert info.tolist() == [2, 0] and info.dtype == gradhook.int32
    np.testing.assert_allclose(inverse[1].cpu().numpy(), np.linalg.inv(GOOD), rtol=1e-6)
    assert linalg.cholesky_ex(both).info.tolist() == [2, 0]
    assert linalg.solve_ex(both, gradhook.ones(2, 2, 1)).info.tolist() == [2, 0]
    assert linalg.lu_factor_ex(both).info.tolist() == [2, 0]
    for call in (linalg.inv_ex, linalg.cholesky_ex, linalg.lu_factor_ex):
        with pytest.raises(linalg.LinAlgError, match="Batch element 0"):
            call(both, check_errors=True)


SQUARE = (
    """inv inv_ex det slogdet cholesky cholesky_ex eigh eigvalsh eig eigvals matrix_exp""".split()
)
ANY = "svd svdvals qr pinv matrix_rank lu lu_factor".split()


@pytest.mark.parametrize("name", SQUARE)
def test_square_functions_refuse_other_shapes_and_dtypes(name):
    with pytest.raises(RuntimeError, match="must be batches of square matrices, but they are 2 by"):
        getattr(linalg, name)(gradhook.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"Expected a floating point or complex tensor.*Int"):
        getattr(linalg, name)(gradhook.ones(2, 2, dtype=gradhook.int32))


@pytest.mark.parametrize("name", SQUARE + ANY)
def test_matrix_functions_refuse_vectors_low_precision_and_what_is_no_tensor(name):
    with pytest.raises(RuntimeError, match="must have at least 2 dimensions"):
        getattr(linalg, name)(gradhook.ones(2))
    with pytest.raises(RuntimeError, match=r"Low precision dtypes not supported. Got Half"):
        getattr(linalg, name)(gradhook.ones(2, 2, dtype=gradhook.float16))
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        getattr(linalg, name)(GOOD)


def leaves(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (2, 0, 0)])
@pytest.mark.parametrize("name", SQUARE + ANY + ["cond"])
def test_empty_matrices_and_batches_have_results_and_gradients(name, shape):
    x = gradhook.ones(*shape, requires_grad=True)
    found = [f for f in leaves(getattr(linalg, name)(x)) if f.requires_grad]
    assert all(f.shape[: len(shape) - 2] == x.shape[:-2] for f in found)
    if found:
        gradhook.autograd.backward([f.abs().sum() for f in found])
        assert x.grad.shape == x.shape


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 3)])
@pytest.mark.parametrize("name", ANY)
def test_matrices_without_rows_or_columns_have_results(name, shape):
    for found in leaves(getattr(linalg, name)(gradhook.ones(*shape))):
        assert found.numel() == 0 or name in ("matrix_rank", "lu", "svd")


def test_results_have_pytorchs_names():
    x = gradhook.tensor(GOOD)
    assert linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.svd(x)._fields == ("U", "S", "Vh") and gradhook.svd(x)._fields == ("U", "S", "V")
    assert linalg.lu(x)._fields == gradhook.lu_unpack(*x.lu())._fields == ("P", "L", "U")
    assert x.slogdet()._fields == ("sign", "logabsdet")


def test_qr_says_when_q_is_not_unique_or_not_there():
    x = gradhook.ones(3, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="mode='complete' and nrows > ncols"):
        linalg.qr(x, "complete").R.sum().backward()
    with pytest.raises(RuntimeError, match="mode='r'"):
        linalg.qr(x, "r").R.sum().backward()
    with pytest.raises(RuntimeError, match="unrecognized mode 'thin'"):
        linalg.qr(x, "thin")


def test_the_gradient_of_a_singular_determinant_is_its_cofactors():
    x = gradhook.tensor(SINGULAR, dtype=gradhook.float64, requires_grad=True)
    gradhook.det(x).backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), [[4, -2], [-2, 1]], atol=1e-14)


@pytest.mark.parametrize("x", [SINGULAR, np.zeros((2, 2))], ids=["rank 1", "zero"])
def test_the_second_derivative_of_a_singular_determinant_is_exact(x):
    x = gradhook.tensor(x, dtype=gradhook.float64)
    found = gradhook.autograd.functional.hessian(gradhook.det, x).reshape(4, 4)
    expected = [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_allclose(found.cpu().numpy(), expected, atol=1e-14)


def test_equal_eigenvalues_have_a_gradient_where_only_values_are_asked():
    x = gradhook.eye(3, requires_grad=True)
    values = [linalg.eigvalsh(x), linalg.svdvals(x), linalg.norm(x, "nuc"), linalg.eigh(x)[0]]
    values += [linalg.svd(x)[1], linalg.eigvals(x).real]
    sum(v.sum() for v in values).backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), 6 * np.eye(3), atol=1e-6)


def test_gradients_of_the_unread_triangle_are_zero():
    x = gradhook.tensor(GOOD, requires_grad=True)
    gradhook.cholesky_solve(gradhook.ones(2, 1), x).sum().backward()
    assert x.grad[0, 1].item() == 0 != x.grad[1, 0].item()


def test_least_squares_gives_residuals_rank_and_singular_values_by_driver():
    a, b = gradhook.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), gradhook.tensor([1.0, 2.0, 3.0])
    found = linalg.lstsq(a, b, driver="gelsd")
    assert found.solution.tolist() == pytest.approx([1.0, 1.0])
    assert found.residuals.tolist() == pytest.approx([9.0])
    assert found.rank.tolist() == 2 and found.singular_values.tolist() == pytest.approx([2.0, 1.0])
    assert linalg.lstsq(a, b).residuals.numel() == 0
    assert linalg.lstsq(a, b, driver="gels").rank.numel() == 0
    with pytest.raises(RuntimeError, match="parameter `driver` should be one of"):
        linalg.lstsq(a, b, driver="qr")


def test_a_matrix_of_low_rank_is_found_again_by_random_projection():
    gradhook.manual_seed(0)
    a = gradhook.randn(2, 6, 2) @ gradhook.randn(2, 2, 5)
    u, s, v = gradhook.svd_lowrank(a, q=3)
    assert (u.shape, s.shape, v.shape) == ((2, 6, 3), (2, 3), (2, 5, 3))
    np.testing.assert_allclose(((u * s[:, None]) @ v.mT).cpu().numpy(), a.cpu().numpy(), atol=1e-5)
    assert gradhook.pca_lowrank(a)[1].shape == (2, 5)
    with pytest.raises(ValueError, match="not greater than"):
        gradhook.pca_lowrank(a, q=7)
