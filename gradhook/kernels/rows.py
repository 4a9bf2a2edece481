"""Kernels over rows: softmax, log_softmax, layer_norm, their gradients, and sums over axes.

Each declines (NotImplemented) what it does not do; the formula then runs. They take C-contiguous
arrays of one real floating dtype, and reduce trailing axes.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels.launch import Kernel, is_plain, sum_type
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


def launch_rows(kernel: Kernel, args: tuple[Any, ...], rows: int, n: int, nbytes: int) -> None:
    """A warp a row for short rows, else a block a row."""
    numbers = (np.int64(rows), np.int64(n))
    if n <= 1024 and rows > 1:
        kernel(((rows + 3) // 4,), (32, 4), (*args, *numbers), nbytes)
    else:
        kernel((rows,), (256 if n <= 8192 else 1024,), (*args, *numbers), nbytes)


def _is_last(x: Any, axis: int) -> bool:
    return bool(x.size and x.ndim and axis in (-1, x.ndim - 1) and is_plain(x))


def _rows_like(name: str, x: Any, *arrays: Any) -> Any:
    n = int(x.shape[-1])
    out = backend.cupy().ndarray(x.shape, x.dtype)
    nbytes = (len(arrays) + 1) * x.nbytes
    launch_rows(row_kernel(name, x.dtype.name), (*arrays, out), x.size // n, n, nbytes)
    return out


@kernel_for("softmax")
def softmax(x: Any, *, axis: int) -> Any:
    """Kernel of the table's softmax."""
    return _rows_like("softmax", x, x) if _is_last(x, axis) else NotImplemented


@kernel_for("log_softmax")
def log_softmax(x: Any, *, axis: int) -> Any:
    """Kernel of the table's log_softmax."""
    return _rows_like("log_softmax", x, x) if _is_last(x, axis) else NotImplemented


def _vjp(name: str, g: Any, out: Any, axis: int) -> Any:
    if not _is_last(out, axis) or g.shape != out.shape or not is_plain(out, g):
        return NotImplemented
    return _rows_like(name, out, g, out)


@kernel_for("softmax_vjp")
def softmax_vjp(g: Any, out: Any, *, axis: int) -> Any:
    """Kernel of the gradient of softmax."""
    return _vjp("softmax_vjp", g, out, axis)


@kernel_for("log_softmax_vjp")
def log_softmax_vjp(g: Any, out: Any, *, axis: int) -> Any:
    """Kernel of the gradient of log_softmax."""
    return _vjp("log_softmax_vjp", g, out, axis)


def _normalized(x: Any, axis: Any, *others: Any) -> int:
    """The length of the normalized trailing axes; 0 where the kernel declines."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    count = len(axes)
    if sorted(a % max(x.ndim, 1) for a in axes) != list(range(x.ndim - count, x.ndim)):
        return 0
    shape = x.shape[x.ndim - count :]
    given = [o for o in others if o is not None]
    if not x.size or not is_plain(x, *given) or any(o.shape != shape for o in given):
        return 0
    return prod(shape)


@kernel_for("layer_norm")
def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float) -> Any:
    """Kernel of the table's layer_norm over trailing axes."""
    n = _normalized(x, axis, weight, bias)
    if not n:
        return NotImplemented
    out = backend.cupy().ndarray(x.shape, x.dtype)
    args = (x, _pointer(weight), _pointer(bias), out, sum_type(x.dtype)(eps))
    launch_rows(row_kernel("layer_norm", x.dtype.name), args, x.size // n, n, 2 * x.nbytes)
    return out


def _pointer(array: Any) -> Any:
    return np.uintp(0) if array is None else array


@kernel_for("standardize_vjp")
def standardize_vjp(g: Any, x: Any, weight: Any = None, *, axis: Any, eps: float) -> Any:
    """Kernel of the gradients of layer_norm for x and weight, over trailing axes."""
    n = _normalized(x, axis, weight)
    if not n or g.shape != x.shape or not is_plain(x, g):
        return NotImplemented
    empty = backend.cupy().ndarray
    out, wide = empty(x.shape, x.dtype), sum_type(x.dtype)
    out_weight = empty(x.shape, wide)
    args = (g, x, _pointer(weight), out, out_weight, wide(eps))
    kernel = row_kernel("layer_norm_vjp", x.dtype.name)
    launch_rows(kernel, args, x.size // n, n, 3 * x.nbytes + out_weight.nbytes)
    return out, out_weight


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
    length = x.size // (outer * inner)
    out = backend.cupy().ndarray(shape, x.dtype)
    nbytes = x.nbytes + out.nbytes
    if inner == 1:
        launch_rows(row_kernel("row_sum", x.dtype.name), (x, out), outer, length, nbytes)
        return out
    blocks = min(outer * ((inner + 31) // 32), 1 << 16)
    numbers = (np.int64(outer), np.int64(length), np.int64(inner))
    column_kernel(x.dtype.name)((blocks,), (32, 8), (x, out, *numbers), nbytes)
    return out
