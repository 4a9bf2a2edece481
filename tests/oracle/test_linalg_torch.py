"""gradhook.linalg against torch.linalg: results, dtypes and gradients of four dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook

torch = pytest.importorskip("torch")
DTYPES = ["float32", "float64", "complex64", "complex128"]


def numbers(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def positive(P, x):
    return x @ x.mH + 2 * P.eye(x.shape[-1], dtype=x.dtype)


def magnitudes(found):
    return tuple(f.abs() for f in found)


def frobenius_cond(P, x):
    """PyTorch's own raises in backward: it multiplies the inverse's norm in place."""
    if P is gradhook:
        return P.linalg.cond(x, "fro")
    return P.linalg.matrix_norm(x) * P.linalg.matrix_norm(P.linalg.inv(x))


ONE = {
    "inv": lambda P, x: P.linalg.inv(x),
    "det": lambda P, x: P.linalg.det(x),
    "slogdet": lambda P, x: tuple(P.linalg.slogdet(x)),
    "logdet": lambda P, x: P.logdet(positive(P, x)),
    "cholesky": lambda P, x: P.linalg.cholesky(positive(P, x)),
    "upper cholesky": lambda P, x: P.linalg.cholesky(positive(P, x), upper=True),
    "cholesky_inverse": lambda P, x: P.cholesky_inverse(P.linalg.cholesky(positive(P, x))),
    "eigh": lambda P, x: magnitudes(P.linalg.eigh(x + x.mH)),
    "eigvalsh": lambda P, x: P.linalg.eigvalsh(x + x.mH, UPLO="U"),
    "eig": lambda P, x: P.linalg.eig(x).eigenvectors.abs().sum(-1),
    "svd": lambda P, x: magnitudes(P.linalg.svd(x, full_matrices=False)),
    "old svd": lambda P, x: magnitudes(P.svd(x)),
    "svdvals": lambda P, x: P.linalg.svdvals(x),
    "qr": lambda P, x: tuple(P.linalg.qr(x)),
    "wide qr": lambda P, x: tuple(P.qr(x[..., :2, :])),
    "pinv": lambda P, x: P.linalg.pinv(x[..., :2]),
    "hermitian pinv": lambda P, x: P.linalg.pinv(positive(P, x), hermitian=True),
    "matrix_exp": lambda P, x: P.matrix_exp(x),
    "matrix_power": lambda P, x: P.linalg.matrix_power(x, -3),
    "lu": lambda P, x: tuple(P.linalg.lu(x))[1:],
    "lu_factor": lambda P, x: P.linalg.lu_factor(x)[0],
    "nuclear norm": lambda P, x: P.linalg.norm(x[0], "nuc"),
    "spectral norm": lambda P, x: P.linalg.matrix_norm(x, 2),
    "column norm": lambda P, x: P.linalg.matrix_norm(x, 1, dim=(0, 2), keepdim=True),
    "vector norm": lambda P, x: P.linalg.vector_norm(x, 3, dim=-1),
    "cond": lambda P, x: P.linalg.cond(x),
    "frobenius cond": lambda P, x: frobenius_cond(P, x),
    "tensorinv": lambda P, x: P.linalg.tensorinv(x[0], ind=1),
    "vander": lambda P, x: P.linalg.vander(x[0], N=4),
    "householder": lambda P, x: P.linalg.householder_product(x[..., :2], x[..., 0, :1]),
}
TWO = {
    "solve": lambda P, a, b: P.linalg.solve(a, b),
    "solve from the right": lambda P, a, b: P.linalg.solve(a, b.mT, left=False),
    "lower triangle": lambda P, a, b: P.linalg.solve_triangular(a, b, upper=False),
    "unit triangle": lambda P, a, b: P.linalg.solve_triangular(
        a, b.mT, upper=True, left=False, unitriangular=True
    ),
    "triangular_solve": lambda P, a, b: P.triangular_solve(b, a, transpose=True)[0],
    "cholesky_solve": lambda P, a, b: P.cholesky_solve(b, P.linalg.cholesky(positive(P, a))),
    "lstsq": lambda P, a, b: P.linalg.lstsq(a[..., :2], b)[0],
    "lu_solve": lambda P, a, b: P.linalg.lu_solve(*P.linalg.lu_factor(a), b, adjoint=True),
    "vecdot": lambda P, a, b: P.linalg.vecdot(a[..., :2], b),
    "cross": lambda P, a, b: P.linalg.cross(a[..., :2], b, dim=-2),
    "multi_dot": lambda P, a, b: P.linalg.multi_dot([a[0], b[0], b[1].mT]),
    "ormqr": lambda P, a, b: P.ormqr(a[..., :2], a[..., 0, :2], b, transpose=True),
}


def outcome(P, run, arrays, weights):
    inputs = [P.from_numpy(a.copy()).requires_grad_() for a in arrays]
    found = run(P, *inputs)
    found = found if isinstance(found, tuple) else (found,)
    loss = 0
    for f, w in zip(found, weights, strict=False):
        turned = f * P.from_numpy(np.resize(w, tuple(f.shape)).astype("f4")).to(inputs[0].dtype)
        loss = loss + P.abs(turned.sum()) if f.requires_grad else loss
    loss.backward()
    results = [f.detach().resolve_conj().numpy() for f in found]
    return results, [x.grad.resolve_conj().numpy() for x in inputs]


def agree(run, dtype, *arrays):
    weights = [np.random.default_rng(k).uniform(0.5, 1.5, 7) for k in range(3)]
    expected, expected_gradients = outcome(torch, run, arrays, weights)
    found, gradients = outcome(gradhook, run, arrays, weights)
    tolerance = 2e-3 if dtype in ("float32", "complex64") else 1e-9
    for f, e in zip(found + gradients, expected + expected_gradients, strict=True):
        assert f.dtype == e.dtype and f.shape == e.shape
        scale = max(1.0, float(np.abs(e).max()))
        np.testing.assert_allclose(f / scale, e / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:(?s).*torch.(qr|lu|svd) is deprecated")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_matrix_are_pytorchs(name, dtype):
    agree(ONE[name], dtype, numbers(dtype, 2, 3, 3))


@pytest.mark.filterwarnings("ignore:.*triangular_solve is deprecated")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_matrices_are_pytorchs(name, dtype):
    agree(TWO[name], dtype, numbers(dtype, 2, 3, 3), numbers(dtype, 2, 3, 2, seed=1))


def test_every_function_of_torch_linalg_is_there():
    lacking = {n for n in dir(torch.linalg) if n[0] != "_"} - set(dir(gradhook.linalg))
    assert lacking == {"common_notes"}


TOLERANCES = {
    "none": lambda P: {},
    "absolute 0": lambda P: {"atol": 0.0},
    "absolute": lambda P: {"atol": 1e-2},
    "absolute of each": lambda P: {"atol": P.tensor([0.0, 1e-2])},
    "both": lambda P: {"atol": P.tensor([0.0, 1e-2]), "rtol": P.tensor(0.5)},
    "relative of each": lambda P: {"rtol": P.tensor([0.0, 1e-2])},
    "older": lambda P: {"tol": 0.0},
}


@pytest.mark.parametrize("name", TOLERANCES)
def test_a_tolerance_counts_singular_values_as_pytorch_does(name):
    one = np.diag([1.0, 1e-20, 1e-3, 0.0])
    for P in (torch, gradhook):
        a, options = P.tensor(np.stack([one, one])), TOLERANCES[name](P)
        found = [P.linalg.matrix_rank(a, **options).tolist()]
        if "tol" not in options:
            found.append(P.linalg.pinv(a, **options).sum((1, 2)).tolist())
        if P is torch:
            expected = found
    assert found[0] == expected[0]
    assert found[1:] == [pytest.approx(e) for e in expected[1:]]
