"""Kernels of what index arrays pick of an array, and of writes and sums there: one launch each.
Sums are made by atomic additions, so their order, and the last bits, are not always the same.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradhook.kernels.launch import (
    THREADS,
    Kernel,
    dtype_name,
    elements_grid,
    is_here,
    is_plain,
    sum_type,
)
from gradhook.kernels.registry import kernel_for

MOST = 3  # index arrays that a kernel takes
WHOLE = slice(None)
_NONE = np.iinfo(np.int64).min  # no position is skipped
# name -> parameters of its own, what happens to element i
BODIES = {
    "pick": ("const T* x, T* out", "out[i] = place < 0 ? static_cast<T>(F(0) / F(0)) : x[place];"),
    "pick_put": ("const T* x, T* out", "if (place >= 0) out[place] = x[i];"),
    "pick_clear": ("T* out", "if (place >= 0) out[place] = static_cast<T>(F(0));"),
    "pick_sum": (
        "const T* x, T* out, long long skip, F scale",
        "if (place >= 0) add_to(out + place, scale * static_cast<F>(x[i]));",
    ),
}


@functools.cache
def pick_kernel(name: str, count: int, dtype: str) -> Kernel:
    """The kernel of one entry of BODIES for `count` index arrays and one dtype."""
    parameters, body = BODIES[name]
    full = f"gradhook_{name}_{count}_{dtype}"
    data = [f"index{k}" for k in range(count)]
    lengths = [f"length{k}" for k in range(count)]
    skip = "skip" if "skip" in parameters else "-1"
    arguments = [
        *("const long long* " + d for d in data),
        *("long long " + d for d in (*lengths, "n", "inner", "count")),
    ]
    arrays, axes = ", ".join(data), ", ".join(lengths)
    text = (
        f'extern "C" __global__ void {full}({", ".join(arguments)}, {parameters}) {{\n'
        f"    const Picked<{count}> at{{{{{arrays}}}, {{{axes}}}, n, inner}};\n"
        "    take_elements(count, [&](long long i) {\n"
        f"        const long long place = at.place(i, {skip});\n        {body} }});\n}}"
    )
    return Kernel(full, ("scatter",), dtype, text)


def is_index(index: Any) -> bool:
    """Whether kernels take this CuPy array as an index."""
    return bool(index.dtype == np.int64 and index._c_contiguous and index.size and is_here(index))


def zeros(like: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of a dtype, without a launch."""
    out = type(like)(shape, like.dtype)
    out.data.memset_async(0, out.nbytes)
    return out


def copied(x: Any) -> Any:
    """A copy of a contiguous array, without a launch, which CuPy's `copy` takes."""
    out = type(x)(x.shape, x.dtype)
    out.data.copy_from_device_async(x.data, x.nbytes)
    return out


class Picked(NamedTuple):
    """Index arrays of n entries each into the axes `lengths` of an array of shape (outer, *lengths,
    inner).
    """

    arrays: tuple[Any, ...]
    n: int
    inner: int
    lengths: tuple[int, ...]

    def launch(self, name: str, like: Any, count: int, *args: Any) -> None:
        """The kernel for `count` picked elements of the dtype of `like`."""
        kernel = pick_kernel(name, len(self.arrays), dtype_name(like))
        numbers = (*self.lengths, self.n, self.inner, count)
        nbytes = count * (2 * like.itemsize + 8 * len(self.arrays))
        kernel(elements_grid(count), (THREADS,), (*self.arrays, *numbers, *args), nbytes)

    def sum_into(self, out: Any, x: Any, skip: int | None = None, scale: Any = 1) -> Any:
        """`out` with scale * x added where they point to, but to the position `skip`."""
        factor = sum_type(x.dtype)(scale)
        self.launch("pick_sum", x, x.size, x, out, _NONE if skip is None else skip, factor)
        return out


def picked(
    shape: tuple[int, ...], index: tuple[Any, ...], x: Any
) -> tuple[Picked, tuple[int, ...]] | None:
    """What x[index] of an array of this shape picks, and its shape; None for what kernels do not
    take. They take up to MOST index arrays of one shape after whole axes, and arrays like x.
    """
    lead = 0
    while lead < len(index) and isinstance(index[lead], slice) and index[lead] == WHOLE:
        lead += 1
    arrays = index[lead:]
    if not 0 < len(arrays) <= MOST or len(index) > len(shape) or not is_plain(x):
        return None
    for i in arrays:
        if type(i) is not type(x) or not is_index(i) or i.shape != arrays[0].shape:
            return None
    lengths, rest = shape[lead : len(index)], shape[len(index) :]
    found = (*shape[:lead], *arrays[0].shape, *rest)
    if not prod(found) or not prod(lengths):
        return None
    return Picked(arrays, arrays[0].size, prod(rest), lengths), found


@kernel_for("take_index")
def take_index(x: Any, *, index: tuple[Any, ...]) -> Any:
    """Kernel of x[index]. An index outside of x gives NaN."""
    found = picked(x.shape, index, x)
    if found is None:
        return NotImplemented
    out = type(x)(found[1], x.dtype)
    found[0].launch("pick", x, out.size, x, out)
    return out


@kernel_for("put_index")
def put_index(x: Any, *, index: tuple[Any, ...], shape: Any) -> Any:
    """Kernel of the gradient of x[index]."""
    found = picked(tuple(shape), index, x)
    if found is None or x.shape != found[1]:
        return NotImplemented
    return found[0].sum_into(zeros(x, tuple(shape)), x)


@kernel_for("clear_index")
def clear_index(x: Any, *, index: tuple[Any, ...]) -> Any:
    """Kernel of the gradient of what index_put leaves of x."""
    found = picked(x.shape, index, x)
    if found is None:
        return NotImplemented
    out = copied(x)
    found[0].launch("pick_clear", x, prod(found[1]), out)
    return out


@kernel_for("index_put")
def index_put(x: Any, value: Any, *, index: tuple[Any, ...], accumulate: bool = False) -> Any:
    """Kernel of the table's index_put of a value that is not broadcast."""
    found = picked(x.shape, index, x)
    if found is None or value.shape != found[1] or not is_plain(x, value):
        return NotImplemented
    out = copied(x)
    if accumulate:
        return found[0].sum_into(out, value)
    found[0].launch("pick_put", x, value.size, value, out)
    return out


@kernel_for("index_accumulate")
def index_accumulate(x: Any, index: Any, *, axis: int, shape: Any) -> Any:
    """Kernel of the gradient of index_select."""
    if not len(shape) or index.ndim != 1:
        return NotImplemented
    return put_index(x, index=(*(WHOLE,) * (axis % len(shape)), index), shape=shape)


@kernel_for("index_add")
def index_add(x: Any, index: Any, source: Any, *, axis: int, alpha: Any = 1) -> Any:
    """Kernel of the table's index_add."""
    if not x.ndim or index.ndim != 1:
        return NotImplemented
    found = picked(x.shape, (*(WHOLE,) * (axis % x.ndim), index), x)
    if found is None or source.shape != found[1] or not is_plain(x, source):
        return NotImplemented
    return found[0].sum_into(copied(x), source, scale=alpha)
