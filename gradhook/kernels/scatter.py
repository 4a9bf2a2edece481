"""Kernels of gather, of the sums that are its transpose, and of an embedding's gradient: one launch
each. Sums are made by atomic additions, so their order, and the last bits, are not always the same.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

from gradhook.kernels.launch import (
    NAMES,
    THREADS,
    Kernel,
    elements_grid,
    is_plain,
)
from gradhook.kernels.picking import Picked, copied, is_index, zeros
from gradhook.kernels.registry import kernel_for

# name -> what happens to element i; place: where the index points to, -1 outside
BODIES = {
    "gather": "out[i] = place < 0 ? static_cast<T>(F(0) / F(0)) : x[place];",
    "scatter_sum": "if (place >= 0) add_to(out + place, static_cast<F>(x[i]));",
}


@functools.cache
def index_kernel(name: str, dtype: str) -> Kernel:
    """The kernel of one entry of BODIES for one dtype."""
    full = f"gradhook_{name}_{dtype}"
    body = (
        f'extern "C" __global__ void {full}(const T* x, const long long* index, T* out,\n'
        f"    long long count, long long n, long long inner, long long length) {{\n"
        "    const Index at{index, n, inner, length};\n"
        "    take_elements(count, [&](long long i) {\n"
        f"        const long long place = at.place(i);\n        {BODIES[name]} }});\n}}"
    )
    return Kernel(full, ("scatter",), dtype, body)


def _launch(name: str, args: tuple[Any, ...], count: int, numbers: tuple[int, ...]) -> None:
    x = args[0]
    nbytes = count * (2 * x.itemsize + 8)
    kernel = index_kernel(name, NAMES[x.dtype.char])
    kernel(elements_grid(count), (THREADS,), (*args, count, *numbers), nbytes)


def _numbers(shape: tuple[int, ...], index: Any, axis: int) -> tuple[int, int, int] | None:
    """n, inner and length of `Index` in device code, where the index differs from the array in
    `axis` alone; None otherwise.
    """
    ndim = len(shape)
    if not ndim or index.ndim != ndim or not -ndim <= axis < ndim or not is_index(index):
        return None
    axis %= ndim
    if index.shape[:axis] != shape[:axis] or index.shape[axis + 1 :] != shape[axis + 1 :]:
        return None
    return index.shape[axis], prod(shape[axis + 1 :]), shape[axis]


@kernel_for("gather")
def gather(x: Any, index: Any, *, axis: int, sparse_grad: bool = False) -> Any:
    """Kernel of the table's gather. An index outside of x gives NaN."""
    numbers = _numbers(x.shape, index, axis) if is_plain(x) else None
    if numbers is None:
        return NotImplemented
    out = type(x)(index.shape, x.dtype)
    _launch("gather", (x, index, out), index.size, numbers)
    return out


@kernel_for("gather_padded")
def gather_padded(x: Any, index: Any, *, axis: int, shape: Any) -> Any:
    """Kernel of the gradient of a scatter's source, where it is as long as the index."""
    return gather(x, index, axis=axis) if index.shape == tuple(shape) else NotImplemented


def _sum_at(out: Any, index: Any, x: Any, axis: int) -> Any:
    """Add x to `out` where the index says; an index outside is left out."""
    numbers = _numbers(out.shape, index, axis) if is_plain(x, out) else None
    if numbers is None or x.shape != index.shape:
        return NotImplemented
    _launch("scatter_sum", (x, index, out), index.size, numbers)
    return out


@kernel_for("scatter_zeros")
def scatterzeros(x: Any, index: Any, *, axis: int, shape: Any, unique: bool = False) -> Any:
    """Kernel of the gradient of gather."""
    if not is_plain(x) or _numbers(tuple(shape), index, axis) is None or x.shape != index.shape:
        return NotImplemented
    return _sum_at(zeros(x, tuple(shape)), index, x, axis)


@kernel_for("scatter_add")
def scatter_add(x: Any, index: Any, src: Any, *, axis: int) -> Any:
    """Kernel of the table's scatter_add."""
    if not is_plain(x, src) or _numbers(x.shape, index, axis) is None or src.shape != index.shape:
        return NotImplemented
    return _sum_at(copied(x), index, src, axis)


@kernel_for("scatter_rows")
def scatter_rows(
    grad: Any, indices: Any, *, shape: tuple[int, ...], skip: int | None = None,
    by_frequency: bool = False,
) -> Any:  # fmt: skip
    """Kernel of the gradient of embedding."""
    shape = tuple(shape)
    inner, n = prod(shape[1:]), indices.size
    if by_frequency or not grad.size or not is_plain(grad) or not is_index(indices):
        return NotImplemented
    if grad.size != n * inner:
        return NotImplemented
    picked = Picked((indices,), n, inner, shape[:1])
    return picked.sum_into(zeros(grad, shape), grad, skip)
