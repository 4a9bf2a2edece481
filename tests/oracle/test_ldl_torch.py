"""linalg.ldl_factor and ldl_solve against LAPACK's, as PyTorch has them."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(2)


def matrices(n, batch, dtype, hermitian):
    a = RNG.standard_normal((batch, n, n)).astype(dtype)
    if a.dtype.kind == "c":
        a += 1j * RNG.standard_normal(a.shape)
    a[0, : n // 2, : n // 2] = 0  # blocks of two rows are needed
    other = np.swapaxes(a, 1, 2)
    return a + (other.conj() if hermitian else other)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize(("n", "batch"), [(1, 2), (2, 3), (5, 20), (9, 4), (70, 2)])
def test_the_factors_pivots_and_solutions_are_lapacks(n, batch, dtype, hermitian):
    a = matrices(n, batch, dtype, hermitian)
    if n == 1:
        a = a + 1
    b = RNG.standard_normal((batch, n, 3)).astype(dtype)
    rtol = 2e-2 if dtype == "float32" else 1e-7
    found = []
    for lib in (gradhook, torch):
        factors = lib.linalg.ldl_factor_ex(lib.tensor(a), hermitian=hermitian)
        x = lib.linalg.ldl_solve(*factors[:2], lib.tensor(b), hermitian=hermitian)
        found.append([*factors, x])
    assert found[0][1].tolist() == found[1][1].tolist()
    assert found[0][2].tolist() == found[1][2].tolist()
    for k in (0, 3):
        ours, theirs = found[0][k].numpy(), found[1][k].numpy()
        np.testing.assert_allclose(ours, theirs, rtol, rtol * np.abs(theirs).max())


def test_the_derivative_of_a_solution_is_that_of_its_right_side():
    a = gradhook.tensor(matrices(4, 2, "complex128", False))
    b = gradhook.tensor(RNG.standard_normal((4, 2)) + 0j, requires_grad=True)
    for hermitian in (False, True):
        whole = a + a.mH if hermitian else a
        factors = gradhook.linalg.ldl_factor(whole, hermitian=hermitian)
        x = gradhook.linalg.ldl_solve(*factors, b, hermitian=hermitian)
        seed = gradhook.tensor(RNG.standard_normal((2, 4, 2)) + 0j)
        (ours,) = gradhook.autograd.grad(x, b, seed)
        (expected,) = gradhook.autograd.grad(gradhook.linalg.solve(whole, b), b, seed)
        np.testing.assert_allclose(ours.numpy(), expected.numpy(), 1e-9, 1e-9)


def test_what_has_no_derivative_says_so():
    a = gradhook.eye(3, requires_grad=True)
    factors = gradhook.linalg.ldl_factor(a)
    for result in (factors.LD, gradhook.linalg.ldl_solve(*factors, gradhook.ones(3, 1))):
        with pytest.raises(RuntimeError, match=r"derivative of linalg.ldl_.* not implemented"):
            result.sum().backward()


def test_a_column_of_zeros_raises_and_is_named_by_the_ex_function():
    zeros = gradhook.zeros(2, 2)
    assert gradhook.linalg.ldl_factor_ex(zeros).info.item() == 1
    with pytest.raises(gradhook.linalg.LinAlgError, match=r"D\[1,1\] is zero"):
        gradhook.linalg.ldl_factor_ex(zeros, check_errors=True)
    assert torch.linalg.ldl_factor_ex(torch.zeros(2, 2)).info.item() == 1


CALLS = [
    lambda lib: lib.linalg.ldl_factor(lib.zeros(2, 3)),
    lambda lib: lib.linalg.ldl_factor(lib.zeros(3)),
    lambda lib: lib.linalg.ldl_factor(lib.zeros(2, 2)),
    lambda lib: lib.linalg.ldl_factor(lib.zeros(2, 2, dtype=lib.int64)),
    *(
        lambda lib, p=p, b=b: lib.linalg.ldl_solve(
            lib.eye(3), p(lib.tensor([1, 2, 3], dtype=lib.int32)), b(lib)
        )
        for p, b in [
            (lambda p: p, lambda lib: lib.ones(3)),
            (lambda p: p[:2], lambda lib: lib.ones(3, 1)),
            (lambda p: p.float(), lambda lib: lib.ones(3, 1)),
            (lambda p: p, lambda lib: lib.ones(4, 1)),
            (lambda p: p, lambda lib: lib.ones(3, 1).double()),
        ]
    ),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_raises_pytorchs_class_of_error(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(theirs.type):
        call(gradhook)
