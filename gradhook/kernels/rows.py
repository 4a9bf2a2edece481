"""Kernels over rows: softmax, log_softmax, their gradients, sums over axes; the rows of norms.py.

Each declines (NotImplemented) what it does not do; the formula then runs. They take C-contiguous
arrays of one real floating dtype, and reduce trailing axes.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

from gradhook.kernels.launch import Kernel, dtype_name, fresh, is_plain
from gradhook.kernels.registry import kernel_for

# name -> arguments before (rows, n), and the call for one row
_X, _Y = "Rows<const T>{x, n}", "Rows<T>{out, n}"
_G = "Rows<const T>{g, n}"
BODIES = {
    "softmax": ("const T* x, T* out", f"softmax(row, {_X}, {_Y})"),
    "log_softmax": ("const T* x, T* out", f"log_softmax(row, {_X}, {_Y})"),
    "softmax_vjp": ("const T* g, const T* x, T* out", f"softmax_vjp(row, {_G}, {_X}, {_Y})"),
    "log_softmax_vjp": (
        "const T* g, const T* x, T* out",
        f"log_softmax_vjp(row, {_G}, {_X}, {_Y})",
    ),
    "layer_norm": (
        "const T* x, const T* weight, const T* bias, T* out, F eps",
        f"layer_norm(row, {_X}, Columns<T>{{weight}}, Columns<T>{{bias}}, bias != nullptr, eps, "
        f"{_Y})",
    ),
    "layer_norm_vjp": (
        "const T* g, const T* x, const T* weight, T* out, F* out_weight, F eps",
        f"layer_norm_vjp(row, {_G}, {_X}, Columns<T>{{weight}}, eps, {_Y}, "
        "Rows<F>{out_weight, n})",
    ),
    "row_sum": ("const T* x, T* out", f"row_sum(row, {_X}, Rows<T>{{out, 1}})"),
}


@functools.cache
def row_kernel(name: str, dtype: str) -> Kernel:
    """The kernel of one row functor for one dtype."""
    arguments, call = BODIES[name]
    full = f"gradhook_{name}_{dtype}"
    body = (
        f'extern "C" __global__ void {full}({arguments}, long long rows, long long n) {{\n'
        f"    for_each_row<F>(rows, n, [&](const auto& row) {{\n        {call}; }});\n}}"
    )
    return Kernel(full, ("rows",), dtype, body)


@functools.cache
def column_kernel(dtype: str) -> Kernel:
    """out(a, c) = the sum over b of x(a, b, c)."""
    name = f"gradhook_column_sum_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(const T* x, T* out, long long outer, '
        "long long length,\n    long long inner) {\n"
        "    sum_columns<F>(outer, length, inner,\n"
        "        [&](long long a, long long b, long long c) {\n"
        "            return static_cast<F>(x[(a * length + b) * inner + c]); },\n"
        "        [&](long long a, long long c, F sum) {\n"
        "            out[a * inner + c] = static_cast<T>(sum); });\n}"
    )
    return Kernel(name, (), dtype, body)


def rows_grid(rows: int, n: int) -> tuple[tuple[int], tuple[int, ...]]:
    """Blocks and threads a block: a warp a row for short rows, else a block a row."""
    if n <= 1024 and rows > 1:
        return ((rows + 3) // 4,), (32, 4)
    return (rows,), (256 if n <= 8192 else 1024,)


def launch_rows(kernel: Kernel, args: tuple[Any, ...], rows: int, n: int, nbytes: int) -> None:
    """Launch a row kernel; the numbers of rows and of their elements follow `args`."""
    grid, block = rows_grid(rows, n)
    kernel(grid, block, (*args, rows, n), nbytes)


def _is_last(x: Any, axis: int) -> bool:
    return bool(x.size and x.ndim and axis in (-1, x.ndim - 1) and is_plain(x))


def _rows_like(name: str, x: Any, *arrays: Any) -> Any:
    n = int(x.shape[-1])
    out = fresh(x, x.shape, x.dtype)
    nbytes = (len(arrays) + 1) * x.nbytes
    launch_rows(row_kernel(name, dtype_name(x)), (*arrays, out), x.size // n, n, nbytes)
    return out


@kernel_for("softmax", native=True)
def softmax(x: Any, *, axis: int) -> Any:
    """Kernel of the table's softmax."""
    return _rows_like("softmax", x, x) if _is_last(x, axis) else NotImplemented


@kernel_for("log_softmax", native=True)
def log_softmax(x: Any, *, axis: int) -> Any:
    """Kernel of the table's log_softmax."""
    return _rows_like("log_softmax", x, x) if _is_last(x, axis) else NotImplemented


def _vjp(name: str, g: Any, out: Any, axis: int) -> Any:
    if not _is_last(out, axis) or g.shape != out.shape or not is_plain(out, g):
        return NotImplemented
    return _rows_like(name, out, g, out)


@kernel_for("softmax_vjp", native=True)
def softmax_vjp(g: Any, out: Any, *, axis: int) -> Any:
    """Kernel of the gradient of softmax."""
    return _vjp("softmax_vjp", g, out, axis)


@kernel_for("log_softmax_vjp", native=True)
def log_softmax_vjp(g: Any, out: Any, *, axis: int) -> Any:
    """Kernel of the gradient of log_softmax."""
    return _vjp("log_softmax_vjp", g, out, axis)


@kernel_for("sum_to")
def sum_to(x: Any, *, shape: tuple[int, ...]) -> Any:
    """Kernel of the table's sum_to where the summed axes lie side by side."""
    lead = x.ndim - len(shape)
    full = (1,) * lead + tuple(shape)
    summed = [k for k, n in enumerate(full) if n == 1 != x.shape[k]]
    if not x.size or not summed or not is_plain(x):
        return NotImplemented
    if summed[-1] - summed[0] + 1 != len(summed):  # of axes of length 1 between, too
        return NotImplemented
    outer, inner = prod(x.shape[: summed[0]]), prod(x.shape[summed[-1] + 1 :])
    return sum_middle(x, outer, inner, shape)


def sum_middle(x: Any, outer: int, inner: int, shape: tuple[int, ...]) -> Any:
    """The sums over the middle one of three axes, of lengths `outer`, any and `inner`.

    x: not empty, plain. Result: of this shape.
    """
    length = x.size // (outer * inner)
    out = fresh(x, shape, x.dtype)
    nbytes = x.nbytes + out.nbytes
    if inner == 1:
        launch_rows(row_kernel("row_sum", dtype_name(x)), (x, out), outer, length, nbytes)
        return out
    blocks = min(outer * ((inner + 31) // 32), 1 << 16)
    column_kernel(dtype_name(x))((blocks,), (32, 8), (x, out, outer, length, inner), nbytes)
    return out
