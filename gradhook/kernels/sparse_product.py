"""Sparse times dense products on CuPy arrays: a thread an element of the result, which sums its
entries in their order. No atomics, so the same bits each time, and no cuSPARSE: any dtype, also
while a graph is captured.
"""

from __future__ import annotations

import functools
from typing import Any

from gradhook import profiler
from gradhook.backend import array_module
from gradhook.kernels.launch import General, is_here
from gradhook.kernels.registry import kernel_for

_PRODUCT = """
    const long long row = i / width, column = i - row * width;
    {S} total = {S}(0);
    for (long long k = starts[row]; k < starts[row + 1]; ++k) {{
        total = total + static_cast<{S}>(values[{at}])
            * static_cast<{S}>(x[static_cast<long long>(indices[k]) * width + column]);
    }}
    out = static_cast<T>(total);
"""
_SAMPLED = """
    const long long r = static_cast<long long>(rows[i]) * width;
    const long long c = static_cast<long long>(columns[i]) * width;
    {S} total = {S}(0);
    for (long long b = 0; b < width; ++b) {{
        total = total + static_cast<{S}>(y[r + b]) * static_cast<{S}>(x[c + b]);
    }}
    out = static_cast<T>(total);
"""


def product_text(half: bool, ordered: bool) -> General:
    """The kernel of sparse_matmul. half: 16-bit floats; ordered: entries stand in another order
    than their values."""
    order = "raw I order, " if ordered else ""
    body = _PRODUCT.format(S="float" if half else "T", at="order[k]" if ordered else "k")
    return General(
        f"raw I starts, raw I indices, {order}raw T values, raw T x, int64 width",
        "T out",
        body,
        f"gradhook_sparse_matmul{'_ordered' if ordered else ''}{'_half' if half else ''}",
        "",
    )


def sampled_text(half: bool) -> General:
    """The kernel of sparse_sampled."""
    return General(
        "raw I rows, raw I columns, raw T y, raw T x, int64 width",
        "T out",
        _SAMPLED.format(S="float" if half else "T"),
        f"gradhook_sparse_sampled{'_half' if half else ''}",
        "",
    )


@functools.cache
def _product(half: bool, ordered: bool) -> Any:
    return product_text(half, ordered).make()


@functools.cache
def _sampled(half: bool) -> Any:
    return sampled_text(half).make()


def _is_half(x: Any) -> bool:
    return x.dtype.char in "eE"


@kernel_for("sparse_matmul")
def sparse_matmul(values: Any, x: Any, *, pattern: Any, transpose: bool = False) -> Any:
    """Kernel of the table's sparse_matmul; the transpose goes over the transposed pattern."""
    found = pattern.transposed(array_module(x)) if transpose else pattern
    if values.dtype != x.dtype or not is_here(values, x, found.indices):
        return NotImplemented
    _check(found.shape[1], x, values.shape == (found.nnz,))
    out = type(x)((found.shape[0], x.shape[1]), x.dtype)
    if out.size:
        order = () if found.order is None else (found.order,)
        args = (found.indptr, found.indices, *order, values, x)
        kernel = _product(_is_half(x), bool(order))
        kernel(*args, x.shape[1], out)
        profiler.count_launch(kernel.name, sum(a.nbytes for a in (*args, out)))
    return out


@kernel_for("sparse_sampled")
def sparse_sampled(y: Any, x: Any, *, pattern: Any, transpose: bool = False) -> Any:
    """Kernel of the table's sparse_sampled."""
    rows, columns = pattern.places(array_module(x))
    if transpose:
        rows, columns = columns, rows
    if y.dtype != x.dtype or not is_here(y, x, rows):
        return NotImplemented
    _check(pattern.shape[0 if transpose else 1], x, y.shape[1] == x.shape[1])
    out = type(x)((pattern.nnz,), x.dtype)
    if out.size:
        kernel = _sampled(_is_half(x))
        kernel(rows, columns, y, x, x.shape[1], out)
        profiler.count_launch(kernel.name, sum(a.nbytes for a in (rows, columns, y, x, out)))
    return out


def _check(length: int, x: Any, fits: bool) -> None:
    if x.shape[0] != length or not fits:
        raise ValueError(f"sparse product: found {x.shape} beside a matrix of {length} columns")
