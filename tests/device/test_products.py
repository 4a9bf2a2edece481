"""Matrix products too large for one small launch: one call of cuBLAS whatever the strides allow."""

from __future__ import annotations

import numpy as np
import pytest

from gradhook import backend
from gradhook.kernels import products
from gradhook.kernels.small_product import LONGEST
from gradhook.ops.namespace import FormulaNamespace, table_namespace

pytestmark = pytest.mark.cuda

RNG = np.random.default_rng(3)
K = LONGEST + 44
A, B, BIAS = RNG.standard_normal((6, K)), RNG.standard_normal((K, 35)), RNG.standard_normal(35)
CUBE = RNG.standard_normal((2, 5, K))
BATCH = RNG.standard_normal((2, 3, 5, 2 * K))
TOLERANCE = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-13}

# name, arrays, attributes: each is one call of cuBLAS, with a bias one launch more
ONE_CALL = {
    "matrices": ("matmul", (A, B), {}),
    "both transposed": ("matmul", (B.T, A.T), {}),
    "rows with a step": ("matmul", (A[::2], B), {}),
    "columns of a wider one": ("matmul", (A, RNG.standard_normal((K, 70))[:, 20:55]), {}),
    "one row": ("matmul", (A[:1], B), {}),
    "one column": ("matmul", (A, B[:, :1]), {}),
    "three axes and a matrix": ("matmul", (CUBE, B), {}),
    "a batch": ("matmul", (CUBE, CUBE.swapaxes(-1, -2)), {}),
    "a batch of a batch": ("matmul", (BATCH, BATCH.swapaxes(-1, -2)), {}),
    "halves of a batch": ("matmul", (BATCH[..., :K], BATCH[..., K:].swapaxes(-1, -2)), {}),
    "a repeated matrix": (
        "matmul", (np.broadcast_to(CUBE[:1], (3, 5, K)), BATCH[0, :, :4, :K].swapaxes(1, 2)), {}
    ),
    "one outer matrix": ("matmul", (BATCH[:1], BATCH[1:].swapaxes(-1, -2)), {}),
    "left gradient": ("matmul_left", (A, B.T.copy()), {"shape": (6, 35)}),
    "right gradient": ("matmul_right", (B[:, :7].copy(), B[:, 7:16].copy()), {"shape": (7, 9)}),
    "linear": ("linear", (A, B.T.copy(), BIAS), {}),
    "linear of three axes": ("linear", (CUBE, B.T.copy(), BIAS), {}),
    "linear of rows with a step": ("linear", (A[::2], B.T), {}),
    "linear_input": ("linear_input", (A, B), {}),
    "linear_weight": ("linear_weight", (A.T.copy(), B), {}),
    "linear_parameters": ("linear_parameters", (B, B[:, :9].copy()), {}),
}  # fmt: skip
DECLINED = {
    "steps in both axes": ("matmul", (BATCH[0, 0][:, ::2], B), {}),
    "heads that lie apart": ("matmul", (BATCH.swapaxes(1, 2), BATCH.transpose(0, 2, 3, 1)), {}),
    "a batch repeated inside another": (
        "matmul",
        (np.broadcast_to(CUBE[:, None], (2, 3, 5, K)), BATCH[..., :K].swapaxes(2, 3)),
        {},
    ),
    "a broadcast batch": ("matmul", (CUBE[:1], CUBE.swapaxes(-1, -2)), {}),
    "a vector": ("matmul", (A, B[:, 0]), {}),
    "integers": ("matmul", (np.ones((2, K), int), np.ones((K, 3), int)), {}),
    "complex": ("matmul", (A + 1j, B + 0j), {}),
    "nothing to sum": ("matmul", (A[:, :0], B[:0]), {}),
    "no rows": ("linear", (A[:0], B.T.copy(), BIAS), {}),
}


def compared(name, arrays, attributes, dtype):
    given = [layout(a, dtype) for a in arrays]
    found = getattr(table_namespace(backend.cupy()), name)(*given, **attributes)
    wide = [backend.to_host(a) for a in given]
    wide = [a.astype("f8") if a.dtype.kind == "f" else a for a in wide]
    expected = getattr(FormulaNamespace(np), name)(*wide, **attributes)
    several = isinstance(expected, tuple)
    for one, reference in zip(found, expected, strict=True) if several else [(found, expected)]:
        bound = TOLERANCE[dtype] * max(1.0, float(np.abs(reference).max(initial=0)))
        assert one.shape == reference.shape and one.dtype == given[0].dtype
        np.testing.assert_allclose(backend.to_host(one), reference, rtol=0, atol=bound)


def layout(array, dtype):
    """The array on the device with the strides it has on the host."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    target = dtype if array.dtype.kind == "f" else array.dtype
    moved = backend.to_device(np.ascontiguousarray(whole).astype(target), "cuda")
    scale = moved.itemsize / array.itemsize
    start = (array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) * scale
    strides = tuple(int(s * scale) for s in array.strides)
    cupy = backend.cupy()
    return cupy.ndarray(array.shape, target, moved.data + int(start), strides)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", ONE_CALL)
def test_a_product_is_one_call_of_cublas(case, dtype, device_counters):
    name, arrays, attributes = ONE_CALL[case]
    given = [layout(a, dtype) for a in arrays]
    function = getattr(table_namespace(backend.cupy()), name)
    function(*given, **attributes)
    device_counters(reset=True)
    function(*given, **attributes)
    more = len(arrays) == 3 or name == "linear_parameters"  # a bias, the sums for one
    assert device_counters()["launches"] == 1 + more
    compared(name, arrays, attributes, dtype)


@pytest.mark.parametrize("case", DECLINED)
def test_what_cublas_does_not_take_is_left_to_cupy(case):
    name, arrays, attributes = DECLINED[case]
    given = [layout(a, "float64") for a in arrays]
    kernel = getattr(products, name)
    assert kernel(*given, **attributes) is NotImplemented
    compared(name, arrays, attributes, "float64")


def test_a_chosen_compute_type_is_kept():
    cupy = backend.cupy()
    x = layout(BATCH, "float32")
    y = x.swapaxes(-1, -2)
    linalg = cupy._core._routines_linalg
    before = linalg.get_compute_type(np.dtype("f"))
    linalg.set_compute_type(np.dtype("f"), linalg.COMPUTE_TYPE_PEDANTIC)
    try:
        assert products.matmul(x, y) is NotImplemented
    finally:
        linalg.set_compute_type(np.dtype("f"), before)
    assert products.matmul(x, y) is not NotImplemented
