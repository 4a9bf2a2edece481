"""gradhook.sparse: scipy.sparse and cupyx.scipy.sparse matrices times dense tensors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import gradhook
from gradhook import backend, profiler, sparse
from gradhook.autograd.gradcheck import gradcheck, gradgradcheck

FORMATS = ("csr", "csc", "coo")
SHAPES = ((4,), (4, 3), (2, 4, 3), (2, 1, 4, 3), (4, 0), (0, 4, 2), (4, 1))


def matrix(format: str = "csr", dtype: str = "f8", shape: tuple = (5, 4), density: float = 0.5):
    """A SciPy matrix and the same on the device under test."""
    host = scipy.sparse.random(*shape, density=density, format=format, random_state=1, dtype="f8")
    if dtype == "c16":
        host = host + 1j * host.power(2)
        host = host.asformat(format)
    return host, there(host.astype(dtype))


def there(host):
    """A SciPy matrix on the device under test."""
    if not gradhook.empty(0).is_cuda:
        return host
    cupy = backend.cupy()
    module = backend.scipy(cupy, "sparse")
    if host.format == "coo":
        parts = cupy.asarray(host.data), (cupy.asarray(host.row), cupy.asarray(host.col))
        return module.coo_matrix(parts, shape=host.shape)
    parts = tuple(cupy.asarray(a) for a in (host.data, host.indices, host.indptr))
    return getattr(module, f"{host.format}_matrix")(parts, shape=host.shape)


def random(*shape: int, dtype: str = "f8", seed: int = 0, grad: bool = True):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype == "c16":
        values = values + 1j * rng.standard_normal(shape)
    return gradhook.tensor(values.astype(dtype), requires_grad=grad)


def host(t) -> np.ndarray:
    return t.detach().cpu().numpy()


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", FORMATS)
def test_products_agree_with_the_dense_matrix_in_every_format_and_shape(format, shape, dtype):
    a, A = matrix(format, dtype)
    x = random(*shape, dtype=dtype)
    dense = a.toarray()
    for found in (sparse.mm(A, x), sparse.from_scipy(A) @ x):
        assert tuple(found.shape) == (dense @ host(x)).shape and found.dtype == x.dtype
        np.testing.assert_allclose(host(found), dense @ host(x), atol=1e-12)
    turned = x if x.ndim == 1 else x.transpose(-1, -2)
    expected = host(turned) @ dense.T
    for B in (sparse.from_scipy(A).T, A.T):
        np.testing.assert_allclose(host(turned @ B), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", [(4,), (4, 3), (2, 4, 3)])
@pytest.mark.parametrize("format", FORMATS)
def test_both_sides_have_gradients_of_both_orders(format, shape, dtype):
    a, A = matrix(format, dtype)
    S = sparse.from_scipy(A)
    values, x = random(a.nnz, dtype=dtype), random(*shape, dtype=dtype, seed=1)
    assert gradcheck(lambda v, x: S.with_values(v) @ x, (values, x))
    assert gradgradcheck(lambda v, x: S.with_values(v) @ x, (values, x))
    assert gradcheck(lambda v: sparse.mm(A, x.detach(), v), values)
    wide = S.with_values(random(a.nnz, dtype=dtype)).T
    assert gradcheck(lambda y: wide @ y, random(5, 2, dtype=dtype))


def test_the_gradient_of_the_values_is_the_dense_one_at_their_places():
    a, A = matrix("csr")
    x, g = random(4, 3), random(5, 3, seed=2, grad=False)
    values = random(a.nnz)
    (sparse.from_scipy(A).with_values(values) @ x).backward(g)
    rows, columns = a.tocoo().row, a.tocoo().col
    expected = (host(g) @ host(x).T)[rows, columns]
    np.testing.assert_allclose(host(values.grad), expected, atol=1e-12)
    a.data = host(values)
    np.testing.assert_allclose(host(x.grad), a.toarray().T @ host(g), atol=1e-12)


def test_entries_that_a_coo_matrix_names_twice_add_up_and_have_each_a_gradient():
    parts = (np.array([1.0, 2.0, 4.0]), (np.array([1, 0, 1]), np.array([0, 2, 0])))
    A = there(scipy.sparse.coo_matrix(parts, shape=(2, 3)))
    x, values = gradhook.tensor([1.0, 10.0, 100.0], dtype=gradhook.float64), random(3)
    assert sparse.mm(A, x).tolist() == [200.0, 5.0]
    sparse.mm(A, x, values).sum().backward()
    assert values.grad.tolist() == [1.0, 100.0, 1.0]


@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (0, 0)])
def test_empty_matrices_give_empty_or_zero_results_and_gradients(shape):
    A = there(scipy.sparse.csr_matrix(shape))
    x, values = random(shape[1], 2), random(0)
    y = sparse.mm(A, x, values)
    assert host(y).tolist() == np.zeros((shape[0], 2)).tolist()
    y.sum().backward()
    assert host(x.grad).tolist() == np.zeros((shape[1], 2)).tolist()
    assert values.grad.shape == (0,)


def test_rows_and_columns_without_entries_are_zero():
    A = there(scipy.sparse.csr_matrix(([2.0], ([3], [1])), shape=(5, 4)))
    x = random(4)
    y = sparse.mm(A, x)
    y.sum().backward()
    assert y.tolist() == [0, 0, 0, 2 * x.tolist()[1], 0] and x.grad.tolist() == [0, 2, 0, 0]


def test_dtypes_are_promoted_and_each_gradient_has_its_own():
    a, A = matrix("csr", "f4")
    x = random(4, 2)
    values = gradhook.tensor(a.data.astype("f4"), requires_grad=True)
    y = sparse.mm(A, x, values)
    y.sum().backward()
    assert y.dtype == gradhook.float64
    assert values.grad.dtype == gradhook.float32 and x.grad.dtype == gradhook.float64


def test_16_bit_floats_are_summed_in_32():
    A = there(scipy.sparse.csr_matrix(np.full((1, 3000), 1.0)))
    x = gradhook.ones(3000, 1, dtype=gradhook.float16, requires_grad=True)
    values = gradhook.ones(3000, dtype=gradhook.float16, requires_grad=True)
    y = sparse.mm(A, x, values)
    assert y.dtype == gradhook.float16 and y.tolist() == [[3000.0]]  # 2048 when summed in 16 bits
    wide = gradhook.ones(1, 3000, dtype=gradhook.float16)
    one = there(scipy.sparse.csr_matrix(np.array([[1.0]])))
    sampled = gradhook.ones(1, dtype=gradhook.float16, requires_grad=True)
    (sparse.mm(one, wide, sampled) * wide).sum().backward()
    assert sampled.grad.tolist() == [3000.0]


def test_integer_matrices_and_other_formats_work():
    a = scipy.sparse.csr_matrix(np.array([[0, 2], [3, 0]]))
    x = random(2)
    if x.is_cuda:
        pytest.skip("cupyx has no integer matrices, and its conversions are cuSPARSE's")
    for format in ("csr", "lil", "dok", "bsr", "dia"):
        np.testing.assert_allclose(host(sparse.mm(a.asformat(format), x)), a @ host(x))
    np.testing.assert_allclose(host(sparse.mm(scipy.sparse.csr_array(a), x)), a @ host(x))


def test_the_values_share_the_matrix_memory_and_the_version_check_sees_writes():
    _, A = matrix("csr")
    S = sparse.from_scipy(A)
    x = random(4)
    y = S @ x
    S.values.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    np.testing.assert_allclose(host(S.values), A.data if not x.is_cuda else A.data.get())


def test_hooks_see_the_gradient_of_the_values():
    a, A = matrix("csr")
    values, seen = random(a.nnz), []
    values.register_hook(lambda g: seen.append(tuple(g.shape)) or g * 0)
    y = sparse.mm(A, random(4, 2), values)
    assert y.grad_fn.name() == "SparseMatmulBackward0"
    y.sum().backward()
    assert seen == [(a.nnz,)] and not host(values.grad).any()


def test_what_does_not_fit_is_an_error_in_words():
    a, A = matrix("csr")
    S = sparse.from_scipy(A)
    with pytest.raises(RuntimeError, match=r"5 x 4 and \(5, 2\)"):
        S @ random(5, 2)
    with pytest.raises(RuntimeError, match=r"5 x 4 and \(\)"):
        sparse.mm(A, random())
    with pytest.raises(RuntimeError, match=rf"values of shape \(3,\), expected \({a.nnz},\)"):
        S.with_values(random(3))
    with pytest.raises(TypeError, match=r"found ndarray, expected a matrix of scipy\.sparse"):
        sparse.from_scipy(np.eye(2))
    with pytest.raises(TypeError, match="found list, expected a Tensor"):
        S @ [1.0]
    with pytest.raises(TypeError, match="found 1 dimensions"):
        sparse.from_scipy(scipy.sparse.coo_array(np.array([1.0, 0, 2])))
    assert "5 x 4, 10 stored entries" in repr(S) and "requires_grad" not in repr(S)


def test_a_matrix_and_a_tensor_on_two_devices_are_refused():
    if not gradhook.cuda.is_available():
        pytest.skip("needs two devices: pytest --device cuda")
    a, _ = matrix("csr")
    with pytest.raises(backend.DeviceError, match=r"move x with \.to\('cpu'\)"):
        sparse.mm(a, random(4))
    with pytest.raises(backend.DeviceError, match="values of the sparse matrix"):
        sparse.from_scipy(a).with_values(random(a.nnz))


def test_a_step_on_a_device_makes_a_launch_a_product_and_no_transfer(request):
    a, A = matrix("csr")
    S = sparse.from_scipy(A)
    values, x = random(a.nnz), random(4, 2)
    if not x.is_cuda:
        pytest.skip("about a device: pytest --device cuda")
    (S.with_values(values) @ x).sum().backward()  # the transposed pattern is made once
    counters = request.getfixturevalue("device_counters")
    before = counters()["d2h"], counters()["syncs"]
    with profiler.launches() as launches:
        (S.with_values(values) @ x).sum().backward()
    names = launches.by_name()
    assert names["gradhook_sparse_matmul"] == 1 and names["gradhook_sparse_sampled"] == 1
    assert names["gradhook_sparse_matmul_ordered"] == 1
    assert (counters()["d2h"], counters()["syncs"]) == before


def test_scipy_takes_a_tensor_without_grad_as_an_array_and_refuses_one_with():
    a, _ = matrix("csr")
    x = gradhook.ones(4, dtype=gradhook.float64, device="cpu")
    assert isinstance(a @ x, np.ndarray)  # SciPy's own operator comes first: use sparse.mm(a, x)
    with pytest.raises(RuntimeError, match="requires grad"):
        a @ x.requires_grad_()
    assert (x @ a.T).requires_grad and sparse.mm(a, x).requires_grad


def test_compressed_matrices_of_cupy_leave_their_operator_to_the_tensor():
    a, A = matrix("csr")
    x = random(4, 2)
    if not x.is_cuda:
        pytest.skip("about matrices of CuPy: pytest --device cuda")
    for B in (A, matrix("csc")[1]):
        y = B @ x
        assert y.grad_fn.name() == "SparseMatmulBackward0"
        np.testing.assert_allclose(host(y), a.toarray() @ host(x), atol=1e-12)
