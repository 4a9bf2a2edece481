"""stack and concat of arrays of one shape: one launch, where CuPy copies array after array."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

from gradhook.kernels.launch import THREADS, Kernel, dtype_name, elements_grid, is_plain
from gradhook.kernels.registry import kernel_for

ARRAYS_A_LAUNCH = 16


@functools.cache
def join_kernel(count: int, dtype: str) -> Kernel:
    """out(o, k, i) = x_k(o, i) for `count` arrays of n elements in all, `inner` of them i's."""
    name = f"gradhook_join_{count}_{dtype}"
    inputs = "".join(f"const T* x{k}, " for k in range(count))
    copies = " ".join(f"to[{k} * inner] = x{k}[i];" for k in range(count))
    body = (
        f'extern "C" __global__ void {name}({inputs}T* out, long long inner, long long n) {{\n'
        "    for_each_element(n, [&](long long i) {\n"
        f"        T* const to = out + i / inner * {count} * inner + i % inner;\n"
        f"        {copies} }});\n}}"
    )
    return Kernel(name, (), dtype, body)


def _joined(arrays: tuple[Any, ...], axis: int, shape: tuple[int, ...]) -> Any:
    """The arrays, of one shape, side by side before this axis, as an array of `shape`."""
    first = arrays[0]
    arrays = tuple([a if a._c_contiguous else a.copy() for a in arrays])
    if not is_plain(*arrays):
        return NotImplemented
    out, n = type(first)(shape, first.dtype), first.size
    kernel = join_kernel(len(arrays), dtype_name(first))
    args = (*arrays, out, prod(first.shape[axis:]), n)
    kernel(elements_grid(n), (THREADS,), args, 2 * out.nbytes)
    return out


def _fits(arrays: tuple[Any, ...], axis: int, ndim: int) -> bool:
    """Whether one launch joins them. ndim: of the result."""
    if not (2 <= len(arrays) <= ARRAYS_A_LAUNCH and -ndim <= axis < ndim):
        return False
    shape = arrays[0].shape
    return bool(arrays[0].size) and all([a.shape == shape for a in arrays])


@kernel_for("stack")
def stack(*tensors: Any, axis: int = 0) -> Any:
    """Kernel of the table's stack."""
    ndim = tensors[0].ndim + 1
    if not _fits(tensors, axis, ndim):
        return NotImplemented
    axis, shape = axis % ndim, tensors[0].shape
    return _joined(tensors, axis, (*shape[:axis], len(tensors), *shape[axis:]))


@kernel_for("concat")
def concat(*tensors: Any, axis: int = 0) -> Any:
    """Kernel of the table's concat, of arrays of one shape."""
    ndim = tensors[0].ndim
    if not _fits(tensors, axis, ndim):
        return NotImplemented
    axis, shape = axis % ndim, tensors[0].shape
    whole = (*shape[:axis], len(tensors) * shape[axis], *shape[axis + 1 :])
    return _joined(tensors, axis, whole)
