"""Kernels over rows: softmax, log_softmax, layer_norm, their gradients, and sums over axes.

Each declines (NotImplemented) what it does not do; the formula then runs. They take C-contiguous
arrays of one real floating dtype, and reduce trailing axes.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from gradhook.kernels.launch import Kernel, dtype_name, is_plain, pointer, sum_type
from gradhook.kernels.registry import kernel_for

SMALL = 1 << 15  # elements, up to which every column block may read the whole array
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
    out = type(x)(x.shape, x.dtype)
    nbytes = (len(arrays) + 1) * x.nbytes
    launch_rows(row_kernel(name, dtype_name(x)), (*arrays, out), x.size // n, n, nbytes)
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


@functools.cache
def _trailing(axis: Any, ndim: int) -> int:
    """How many axes these are, counted from the last; 0 when they are not the trailing ones."""
    axes = (axis,) if isinstance(axis, int) else axis
    n = len(axes)
    return n if sorted(a % max(ndim, 1) for a in axes) == list(range(ndim - n, ndim)) else 0


def _normalized(x: Any, axis: Any, *others: Any) -> int:
    """The length of the normalized trailing axes; 0 where the kernel declines."""
    count = _trailing(axis if isinstance(axis, int) else tuple(axis), x.ndim)
    given = [o for o in others if o is not None]
    if not count or not x.size or not is_plain(x, *given):
        return 0
    shape = x.shape[-count:]
    for other in given:
        if other.shape != shape:
            return 0
    return shape[0] if count == 1 else prod(shape)


@kernel_for("layer_norm")
def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float) -> Any:
    """Kernel of the table's layer_norm over trailing axes."""
    n = _normalized(x, axis, weight, bias)
    if not n:
        return NotImplemented
    out = type(x)(x.shape, x.dtype)
    args = (x, pointer(weight), pointer(bias), out, sum_type(x.dtype)(eps))
    launch_rows(row_kernel("layer_norm", dtype_name(x)), args, x.size // n, n, 2 * x.nbytes)
    return out


@kernel_for("standardize_vjp")
def standardize_vjp(g: Any, x: Any, weight: Any = None, *, axis: Any, eps: float) -> Any:
    """Kernel of the gradients of layer_norm for x and weight, over trailing axes."""
    n = _normalized(x, axis, weight)
    if not n or g.shape != x.shape or not is_plain(x, g):
        return NotImplemented
    empty = type(x)
    out, wide = empty(x.shape, x.dtype), sum_type(x.dtype)
    out_weight = empty(x.shape, wide)
    args = (g, x, pointer(weight), out, out_weight, wide(eps))
    kernel = row_kernel("layer_norm_vjp", dtype_name(x))
    launch_rows(kernel, args, x.size // n, n, 3 * x.nbytes + out_weight.nbytes)
    return out, out_weight


@functools.cache
def layer_norm_kernel(dtype: str) -> Kernel:
    """The gradients of layer_norm for x, weight and bias, of small arrays."""
    name = f"gradhook_layer_norm_vjp_all_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(const T* g, const T* x, const T* weight, T* out,\n'
        "    T* out_weight, T* out_bias, F eps, int row_blocks, long long rows, long long n) {\n"
        "    layer_norm_vjp_all<F>(rows, n, row_blocks, Rows<const T>{g, n}, Rows<const T>{x, n},\n"
        "        Columns<T>{weight}, eps, Rows<T>{out, n}, Rows<T>{out_weight, n},\n"
        "        Rows<T>{out_bias, n});\n}"
    )
    return Kernel(name, ("rows",), dtype, body)


@kernel_for("layer_norm_vjp")
def layer_norm_vjp(
    g: Any, x: Any, weight: Any = None, *, axis: Any, eps: float,
    weight_shape: tuple[int, ...] | None, bias_shape: tuple[int, ...] | None,
) -> Any:  # fmt: skip
    """Kernel of all gradients of layer_norm, for arrays so small that launches are what costs."""
    n = _normalized(x, axis, weight)
    shape = x.shape[x.ndim - (1 if isinstance(axis, int) else len(axis)) :]
    fits = weight_shape == bias_shape == shape and g.shape == x.shape
    if not n or not fits or x.size > SMALL or not is_plain(x, g):
        return NotImplemented
    empty = type(x)
    out, by_weight, by_bias = empty(x.shape, x.dtype), empty(shape, x.dtype), empty(shape, x.dtype)
    rows = x.size // n
    row_blocks = (rows + 7) // 8
    args = (g, x, pointer(weight), out, by_weight, by_bias, sum_type(x.dtype)(eps))
    numbers = (np.int32(row_blocks), rows, n)
    grid = (row_blocks + (n + 31) // 32,)
    layer_norm_kernel(dtype_name(x))(grid, (32, 8), (*args, *numbers), 5 * x.nbytes)
    return out, by_weight, by_bias


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
    out = type(x)(shape, x.dtype)
    nbytes = x.nbytes + out.nbytes
    if inner == 1:
        launch_rows(row_kernel("row_sum", dtype_name(x)), (x, out), outer, length, nbytes)
        return out
    blocks = min(outer * ((inner + 31) // 32), 1 << 16)
    column_kernel(dtype_name(x))((blocks,), (32, 8), (x, out, outer, length, inner), nbytes)
    return out
