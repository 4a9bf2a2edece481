"""Matrix products of small arrays, one launch each: with a layer's bias, with the sum for its
gradient, and over arrays of any strides without a copy. Where arrays are small, launches are what
a product costs.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradhook.kernels.launch import NAMES, Kernel, as_argument, pointer

# Up to here a product takes about as long as a launch; estimates, not yet measured on a GPU.
MOST = 1 << 22  # multiplications
LONGEST = 256  # terms of one sum: a thread adds them one after the other
_MOST_BLOCKS, _BLOCK = 1 << 12, (32, 8)
Strides = tuple[int, ...]  # of two batch axes, rows and columns, in elements


TYPE = np.dtype([("sizes", "i8", (5,)), ("left", "i8", (4,)), ("right", "i8", (4,))])


@functools.cache
def product_kernel(dtype: str) -> Kernel:
    """The kernel of products of one dtype."""
    name = f"gradhook_product_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(const T* left, const T* right, const T* bias,\n'
        "    T* out, T* sums, GRADHOOK_TABLE Product p) {\n"
        "    product<T, F>(left, right, bias, out, sums, p);\n}"
    )
    return Kernel(name, ("product",), dtype, body)


@functools.lru_cache(4096)
def _prepared(
    sizes: tuple[int, ...], left: Strides, right: Strides, sums: bool
) -> tuple[Any, tuple[int], int]:
    """The structure Product of device code, the grid, and how many elements are moved."""
    outer, inner, m, n, k = sizes
    record = np.zeros(1, TYPE)
    record["sizes"], record["left"], record["right"] = sizes, left, right
    tiles = outer * inner * ((m + 31) // 32) * ((n + sums + 31) // 32)
    elements = outer * inner * (m * k + k * n + m * n)
    return as_argument(record), (min(tiles, _MOST_BLOCKS),), elements


def is_small(m: int, n: int, k: int, batch: int = 1) -> bool:
    """Whether a batch of m x k times k x n is for the kernel."""
    return 0 < k <= LONGEST and 0 < m * n * k * batch <= MOST


def small_product(
    left: Any, left_strides: Strides, right: Any, right_strides: Strides,
    sizes: tuple[int, int, int, int, int], shape: tuple[int, ...],
    bias: Any = None, sums: bool = False,
) -> Any:  # fmt: skip
    """left @ right + bias as a fresh array of `shape`; with sums also the sum of each row of left.

    sizes: outer and inner batch axis, m, n, k. The arrays: one dtype, on the current device.
    """
    dtype, empty = left.dtype, type(left)
    out = empty(shape, dtype)
    total = empty((sizes[2],), dtype) if sums else None
    numbers, grid, elements = _prepared(sizes, left_strides, right_strides, sums)
    args = (left, right, pointer(bias), out, pointer(total), numbers)
    product_kernel(NAMES[dtype.char])(grid, _BLOCK, args, elements * dtype.itemsize)
    return (out, total) if sums else out
