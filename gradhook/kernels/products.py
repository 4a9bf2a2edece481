"""Matrix products on CuPy arrays and the affine map with its gradients: small ones by our own
kernel, others by one cuBLAS call each.

cupy.matmul and cupy.dot do the same with 14 us of host time a call (CuPy 14), of which the call
of cuBLAS is 2. What these decline (vectors, integer or complex numbers, broadcast batches) those
two do.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradhook import backend
from gradhook.kernels.launch import KNOWN, NAMES, Kernel, is_here, is_plain
from gradhook.kernels.registry import kernel_for
from gradhook.kernels.rows import launch_rows, sum_middle
from gradhook.kernels.small_product import Strides, is_small, small_product


class Cublas(NamedTuple):
    """What a product needs of CuPy: one product, a batch of products, this thread's handle, and
    the kinds of sums; default: of a dtype when the user chose none.
    """

    gemm: Any
    gemm_batched: Any
    handle: Any
    compute_type: Any
    default: Any


class Kind(NamedTuple):
    """A dtype in cuBLAS' numbers; one, zero: addresses of these numbers in host memory."""

    data: int
    compute: int
    one: int
    zero: int


_SINGLE, _DOUBLE = np.array([1, 0], np.float32), np.array([1, 0], np.float64)
_ONE_ZERO = (_SINGLE.ctypes.data, _SINGLE.ctypes.data + 4)
# dtype.char -> cudaDataType_t and cublasComputeType_t (32F is 68, 64F is 70); E is bfloat16
_KINDS = {
    "e": Kind(2, 68, *_ONE_ZERO),
    "E": Kind(14, 68, *_ONE_ZERO),
    "f": Kind(0, 68, *_ONE_ZERO),
    "d": Kind(1, 70, _DOUBLE.ctypes.data, _DOUBLE.ctypes.data + 8),
}


@functools.cache
def cublas() -> Cublas:
    """CuPy's own ways to cuBLAS."""
    module = backend.cupy()
    linalg = module._core._routines_linalg
    return Cublas(
        linalg.tensordot_core_v11,
        module.cuda.cublas.gemmStridedBatchedEx,
        module.cuda.device.get_cublas_handle,
        linalg.get_compute_type,
        linalg.COMPUTE_TYPE_DEFAULT,
    )


def _order(a: Any) -> tuple[int, int]:
    """(transposed, leading dimension) of an array's last two axes, as cuBLAS sees them with the
    axes swapped; leading dimension 0 when it does not take the strides.
    """
    n, m = a.shape[-2:]
    if a._c_contiguous:
        return 0, m
    if a._f_contiguous and a.ndim == 2:
        return 1, n
    size = a.itemsize
    outer, inner = a.strides[-2] // size, a.strides[-1] // size
    if (inner == 1 or m == 1) and (outer >= m or n == 1):
        return 0, outer if n > 1 else m
    if (outer == 1 or n == 1) and (inner >= n or m == 1):
        return 1, inner if m > 1 else n
    return 0, 0


def _batch_step(a: Any) -> int:
    """Elements from one matrix of a batch to the next; -1 when the steps differ."""
    if a._c_contiguous:
        return a.shape[-1] * a.shape[-2]  # type: ignore[no-any-return]
    step: int | None = None
    span = 0
    for length, stride in zip(a.shape[-3::-1], a.strides[-3::-1], strict=True):
        if length == 1:
            continue
        if step is None:
            step = stride
        elif stride != span:
            return -1
        span = stride * length
    return (step or 0) // a.itemsize  # type: ignore[no-any-return]


def _gemm(
    a: Any, a_order: tuple[int, int], b: Any, b_order: tuple[int, int],
    n: int, k: int, m: int, shape: tuple[int, ...],
) -> Any:  # fmt: skip
    """The product of an n x k and a k x m matrix in these orders, in a fresh array of a shape."""
    out = type(a)(shape, a.dtype)
    cublas().gemm(b_order[0], a_order[0], m, n, k, b, b_order[1], a, a_order[1], out, m)
    return out


def _alike(a: Any, b: Any) -> bool:
    """Whether two arrays have the same dtype, one that kernels take, and are on this device."""
    dtype = a.dtype
    return dtype.char in KNOWN and (b.dtype is dtype or b.dtype == dtype) and is_here(a, b)


def _view(a: Any) -> Strides:
    """Strides of an array of two to four axes, for a small product."""
    size = a.itemsize
    if a.ndim == 2:
        outer, inner = a.strides
        return 0, 0, outer // size, inner // size
    batches: Strides = (0,) * (4 - a.ndim)
    return batches + tuple([s // size for s in a.strides])


def product(a: Any, b: Any, bias: Any = None) -> Any:
    """a @ b of matrices; NotImplemented for what is left to CuPy. bias: see `small_product`."""
    n, k = a.shape
    depth, m = b.shape
    if k != depth or not (n and m and k) or not _alike(a, b):
        return NotImplemented
    if is_small(n, m, k):
        return small_product(a, _view(a), b, _view(b), (1, 1, n, m, k), (n, m), bias)
    left, right = _order(a), _order(b)
    if not left[1] or not right[1]:
        return NotImplemented
    return _with_bias(_gemm(a, left, b, right, n, k, m, (n, m)), bias)


def products(a: Any, b: Any) -> Any:
    """a @ b of two batches of matrices of one leading shape; NotImplemented as in `product`."""
    lead = a.shape[:-2]
    n, k = a.shape[-2:]
    depth, m = b.shape[-2:]
    if k != depth or lead != b.shape[:-2] or not (a.size and b.size) or not _alike(a, b):
        return NotImplemented
    count = prod(lead)
    if len(lead) <= 2 and is_small(n, m, k, count):
        sizes = (1, count, n, m, k) if len(lead) == 1 else (*lead, n, m, k)
        return small_product(a, _view(a), b, _view(b), sizes, (*lead, n, m))
    (a_transposed, a_lead), a_step = _order(a), _batch_step(a)
    (b_transposed, b_lead), b_step = _order(b), _batch_step(b)
    found, kind = cublas(), _KINDS[a.dtype.char]
    if not (a_lead and b_lead) or min(a_step, b_step) < 0:
        return NotImplemented
    if found.compute_type(a.dtype) != found.default:
        return NotImplemented
    out = type(a)((*lead, n, m), a.dtype)
    found.gemm_batched(
        found.handle(), b_transposed, a_transposed, m, n, k, kind.one,
        b.data.ptr, kind.data, b_lead, b_step, a.data.ptr, kind.data, a_lead, a_step,
        kind.zero, out.data.ptr, kind.data, m, n * m, count, kind.compute, -1,
    )  # fmt: skip
    return out


@kernel_for("matmul")
def matmul(x: Any, y: Any) -> Any:
    """Kernel of the table's matmul, of matrices and of batches of one leading shape."""
    if y.ndim == 2 and x.ndim >= 2:
        return _affine(x, y)
    return products(x, y) if x.ndim == y.ndim > 2 else NotImplemented


@kernel_for("matmul_left")
def matmul_left(grad: Any, y: Any, *, shape: tuple[int, ...]) -> Any:
    """Kernel of the gradient of matmul for its first input."""
    if y.ndim < 2 or len(shape) < 2:
        return NotImplemented
    return matmul(grad, y.swapaxes(-1, -2))


@kernel_for("matmul_right")
def matmul_right(x: Any, grad: Any, *, shape: tuple[int, ...]) -> Any:
    """Kernel of the gradient of matmul for its second input."""
    if len(shape) == 2:
        return linear_weight(x, grad)
    return products(x.swapaxes(-1, -2), grad) if x.ndim == grad.ndim > 2 else NotImplemented


# ---- the affine map


def _affine(x: Any, matrix: Any, transposed: bool = False, bias: Any = None) -> Any:
    """x @ matrix (or its transpose) + bias over the last axis of x, as one product: x is not
    reshaped, only read so.
    """
    if matrix.ndim != 2 or not x.ndim or not x._c_contiguous:
        if x.ndim != 2 or matrix.ndim != 2:
            return NotImplemented
        return product(x, matrix.T if transposed else matrix, bias)
    m, k = matrix.shape
    shape, size = x.shape, x.size
    if not transposed:
        m, k = k, m
    if shape[-1] != k or not (size and m) or not _alike(x, matrix):
        return NotImplemented
    n, found = size // k, (*shape[:-1], m)
    if is_small(n, m, k):
        zero, _, rows, columns = _view(matrix)
        strides = (zero, zero, columns, rows) if transposed else (zero, zero, rows, columns)
        return small_product(x, (0, 0, k, 1), matrix, strides, (1, 1, n, m, k), found, bias)
    order, lead = _order(matrix)
    if not lead:
        return NotImplemented
    order = 1 - order if transposed else order
    return _with_bias(_gemm(x, (0, k), matrix, (order, lead), n, k, m, found), bias)


@functools.cache
def bias_kernel(dtype: str) -> Kernel:
    """out(r, i) += bias(i)."""
    name = f"gradhook_add_bias_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(T* out, const T* bias,\n'
        "    long long rows, long long n) {\n"
        "    for_each_row<F>(rows, n, [&](const auto& row) {\n"
        "        const Rows<T> x{out, n};\n"
        "        row.store(x, [&](long long i) {\n"
        "            return row.load(x, i) + row.load(Columns<T>{bias}, i); }); });\n}"
    )
    return Kernel(name, ("rows",), dtype, body)


def _with_bias(out: Any, bias: Any) -> Any:
    if bias is not None:
        n, size = bias.size, out.size
        kernel = bias_kernel(NAMES[out.dtype.char])
        launch_rows(kernel, (out, bias), size // n, n, 2 * size * out.dtype.itemsize)
    return out


@kernel_for("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Kernel of the table's linear."""
    if bias is not None and not (
        bias.dtype == x.dtype and bias.shape == weight.shape[:1] and is_plain(bias)
    ):
        return NotImplemented
    return _affine(x, weight, True, bias)


@kernel_for("linear_input")
def linear_input(grad: Any, weight: Any) -> Any:
    """Kernel of the gradient of linear for its input."""
    return _affine(grad, weight)


def _rows(x: Any) -> Any:
    """x as a matrix, its last axis kept; None where that would be a copy."""
    if x.ndim == 2:
        return x
    return x.reshape(-1, x.shape[-1]) if x.ndim > 2 and x._c_contiguous and x.size else None


def _parameters(grad: Any, x: Any, sums: bool) -> Any:
    """grad^T @ x over all leading axes; sums: and the sums of grad, where one launch gives both."""
    left, right = _rows(grad), _rows(x)
    if left is None or right is None or not _alike(left, right):
        return NotImplemented
    (k, n), (depth, m) = left.shape, right.shape
    if k != depth or not (n and m and k):
        return NotImplemented
    if is_small(n, m + sums, k):
        a, b, rows, columns = _view(left)
        strides = (a, b, columns, rows)
        return small_product(left, strides, right, _view(right), (1, 1, n, m, k), (n, m), sums=sums)
    return NotImplemented if sums else product(left.T, right)


@kernel_for("linear_weight")
def linear_weight(grad: Any, x: Any) -> Any:
    """Kernel of the gradient of linear for its weight."""
    return _parameters(grad, x, False)


@kernel_for("linear_bias")
def linear_bias(grad: Any) -> Any:
    """Kernel of the gradient of linear for its bias."""
    if not grad.size or grad.ndim < 2 or not is_plain(grad):
        return NotImplemented
    return sum_middle(grad, 1, grad.shape[-1], grad.shape[-1:])


@kernel_for("linear_parameters")
def linear_parameters(grad: Any, x: Any) -> Any:
    """Kernel of the gradients of linear for its weight and bias."""
    both = _parameters(grad, x, True)
    if both is not NotImplemented:
        return both
    weight, bias = linear_weight(grad, x), linear_bias(grad)
    return NotImplemented if weight is NotImplemented or bias is NotImplemented else (weight, bias)
