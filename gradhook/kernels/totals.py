"""The sum and the mean of all elements, and the gradient of the mean: one launch each."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels.launch import THREADS, ElementKernel, Kernel, dtype_name, is_plain
from gradhook.kernels.registry import kernel_for
from gradhook.kernels.workspace import MOST_BLOCKS, workspace

QUOTIENT = ElementKernel(
    "quotient", "elements", 1, "x0 / static_cast<F>(number)", (("double", np.float64, "number"),)
)


@functools.cache
def total_kernel(dtype: str) -> Kernel:
    """out = the sum of n elements, divided by a number."""
    name = f"gradhook_total_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(const T* x, T* out, F* partials,\n'
        "    unsigned* arrived, long long divisor, long long n) {\n"
        "    F sum = 0;\n"
        "    take_elements(n, [&](long long i) { sum += static_cast<F>(x[i]); });\n"
        "    reduce_grid(sum, F(0), Add(), partials, arrived, [&](F all) {\n"
        "        *out = static_cast<T>(all / static_cast<F>(divisor)); });\n}"
    )
    return Kernel(name, ("rows",), dtype, body)


def _total(x: Any, axis: Any, keepdims: bool, dtype: Any, divisor: int) -> Any:
    n = x.size
    if axis is not None or dtype is not None or not n or not is_plain(x):
        return NotImplemented
    out, room = type(x)((1,) * x.ndim if keepdims else (), x.dtype), workspace(x)
    grid = (min((n + 4 * THREADS - 1) // (4 * THREADS), MOST_BLOCKS),)
    args = (x, out, room.partials, room.arrived, divisor, n)
    total_kernel(dtype_name(x))(grid, (THREADS,), args, n * x.itemsize)
    return out


@kernel_for("sum")
def sum(x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Kernel of the table's sum, of all elements."""
    return _total(x, axis, keepdims, dtype, 1)


@kernel_for("mean")
def mean(x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Kernel of the table's mean, of all elements."""
    return _total(x, axis, keepdims, dtype, x.size)


@kernel_for("expand_mean")
def expand_mean(x: Any, *, shape: tuple[int, ...], axis: Any = None, keepdims: bool = False) -> Any:
    """Kernel of the gradient of the mean of all elements."""
    if axis is not None or keepdims:
        return NotImplemented
    share = QUOTIENT.of(x, numbers=(float(prod(shape)),))
    return share if share is NotImplemented else backend.cupy().broadcast_to(share, shape)
