"""Optimizer steps over many tensors in one launch: the table of pointers is an argument by value,
so nothing is copied to the device.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels.launch import THREADS, Kernel, as_argument, dtype_name, sum_type

CHUNK = 8192  # elements a block
_ARGUMENT_BYTES = 3900  # of CUDA's 4096: the rest are numbers

_TABLE = "GRADHOOK_TABLE TensorTable<{arrays}, {room}> table"
_EACH = "    for_each_of_tensors(table, chunk, [&](int t, long long i) {{\n        {call}; }});"
_STRUCTS = {
    "sgd": ("SgdStep<F> step", "sgd<T, F>(table, t, i, step)"),
    "adam": ("AdamStep<F> step", "adam<T, F>(table, t, i, step)"),
    "fill": ("F value", "table.template at<T>(0, t, i) = static_cast<T>(value)"),
}
SGD_FIELDS = ("rate", "decay", "momentum", "share")
SGD_FLAGS = ("nesterov", "maximize", "has_buffer", "starts")
ADAM_FIELDS = ("rate", "keep", "decay", "beta1", "beta2", "eps")
ADAM_FLAGS = ("maximize", "amsgrad")


def room(arrays: int) -> int:
    """How many tensors of so many arrays one launch takes."""
    return (_ARGUMENT_BYTES - 8) // (8 * arrays + 12)


@functools.cache
def table_type(arrays: int) -> np.dtype[Any]:
    """The layout of TensorTable<arrays, room(arrays)>."""
    n = room(arrays)
    fields = [
        ("data", "u8", (arrays, n)),
        ("size", "i8", (n,)),
        ("first_block", "i4", (n,)),
        ("count", "i4"),
        ("blocks", "i4"),
    ]
    return np.dtype(fields, align=True)


@functools.cache
def step_type(names: tuple[str, ...], flags: tuple[str, ...], wide: Any) -> np.dtype[Any]:
    """The layout of a step's numbers."""
    return np.dtype([(n, wide) for n in names] + [(f, "i4") for f in flags], align=True)


@functools.cache
def step_kernel(name: str, arrays: int, dtype: str) -> Kernel:
    """The kernel of one step ("sgd", "adam", "fill") over tensors of so many arrays."""
    step, call = _STRUCTS[name]
    full = f"gradhook_{name}_{arrays}_{dtype}"
    table = _TABLE.format(arrays=arrays, room=room(arrays))
    body = (
        f'extern "C" __global__ void {full}(\n    {table},\n'
        f"    {step}, long long chunk) {{\n{_EACH.format(call=call)}\n}}"
    )
    return Kernel(full, ("optimizer",), dtype, body)


@functools.cache
def squares_kernel(dtype: str) -> Kernel:
    """partials[start + block] = the sum of squares of the block's chunk."""
    name = f"gradhook_squares_{dtype}"
    body = (
        f'extern "C" __global__ void {name}({_TABLE.format(arrays=1, room=room(1))},\n'
        "    F* partials, long long chunk) {\n"
        "    sum_of_tensors<F>(table, chunk,\n"
        "        [&](int t, long long i) { return square<T, F>(table, t, i); },\n"
        "        [&](long long block, F sum) { partials[block] = sum; });\n}"
    )
    return Kernel(name, ("optimizer",), dtype, body)


@functools.cache
def clip_kernel(dtype: str) -> Kernel:
    """Scale all tensors by the factor that the partial sums of squares give; norm = their root."""
    name = f"gradhook_clip_{dtype}"
    body = (
        f'extern "C" __global__ void {name}({_TABLE.format(arrays=1, room=room(1))},\n'
        "    const F* partials, long long n, F limit, T* norm, long long chunk) {\n"
        "    const F squares = sum_everywhere(partials, n);\n"
        "    const F factor = clip_factor(squares, limit);\n"
        "    if (is_first_thread()) *norm = static_cast<T>(sqrt(squares));\n"
        "    for_each_of_tensors(table, chunk, [&](int t, long long i) {\n"
        "        T& g = table.template at<T>(0, t, i);\n"
        "        g = static_cast<T>(static_cast<F>(g) * factor); });\n}"
    )
    return Kernel(name, ("optimizer",), dtype, body)


def tables(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, int, int]]:
    """(table, blocks, bytes) for each launch. rows: a tensor's arrays, contiguous, one dtype."""
    arrays = len(rows[0])
    step = room(arrays)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        n = len(part)
        table = np.zeros(1, table_type(arrays))
        found = table[0]
        sizes = [r[0].size for r in part]
        ends = list(accumulate([(size + CHUNK - 1) // CHUNK for size in sizes]))
        found["data"][:, :n] = [[r[k].data.ptr for r in part] for k in range(arrays)]
        found["size"][:n] = sizes
        found["first_block"][1:n] = ends[:-1]
        found["count"], found["blocks"] = n, ends[-1]
        yield as_argument(table), ends[-1], sum(sizes) * part[0][0].itemsize * arrays


def _stepped(name: str, rows: Sequence[tuple[Any, ...]], step: Any) -> None:
    kernel = step_kernel(name, len(rows[0]), dtype_name(rows[0][0]))
    for table, blocks, nbytes in tables(rows):
        kernel((blocks,), (THREADS,), (table, step, CHUNK), nbytes)


def _step(names: tuple[str, ...], flags: tuple[str, ...], dtype: Any, given: Any) -> Any:
    wide: Any = sum_type(dtype)
    step = np.zeros(1, step_type(names, flags, wide))
    found = step[0]
    for name in (*names, *flags):
        found[name] = given[name]
    return as_argument(step)


def sgd(rows: Sequence[tuple[Any, ...]], **numbers: Any) -> None:
    """One SGD step. rows: (parameter, gradient) or (parameter, gradient, buffer) each.

    numbers: rate, decay, momentum, share, nesterov, maximize, starts (the buffers hold nothing).
    """
    given = {**numbers, "has_buffer": len(rows[0]) == 3}
    _stepped("sgd", rows, _step(SGD_FIELDS, SGD_FLAGS, rows[0][0].dtype, given))


def adam(rows: Sequence[tuple[Any, ...]], **numbers: Any) -> None:
    """One Adam step. rows: (parameter, gradient, mean, mean square, largest with amsgrad) each.

    numbers: rate and eps with the bias corrections, keep (what weight decay leaves of a
    parameter), decay (added to the gradient), beta1, beta2, maximize.
    """
    given = {**numbers, "amsgrad": len(rows[0]) == 5}
    _stepped("adam", rows, _step(ADAM_FIELDS, ADAM_FLAGS, rows[0][0].dtype, given))


def fill(arrays: Sequence[Any], value: float) -> None:
    """Every element of every array = value."""
    _stepped("fill", [(a,) for a in arrays], sum_type(arrays[0].dtype)(value))


def clip_norm(arrays: Sequence[Any], limit: float) -> Any:
    """Scale all arrays by min(1, limit / (norm + 1e-6)); returns their norm as one vector, 0-d."""
    dtype, rows = arrays[0].dtype, [(a,) for a in arrays]
    found = list(tables(rows))
    wide = sum_type(dtype)
    n = sum(blocks for _, blocks, _ in found)
    empty = backend.cupy().ndarray
    partials, norm, start = empty((n,), wide), empty((), dtype), 0
    for table, blocks, nbytes in found:
        args: tuple[Any, ...] = (table, partials[start : start + blocks], CHUNK)
        squares_kernel(dtype_name(arrays[0]))((blocks,), (THREADS,), args, nbytes)
        start += blocks
    for table, blocks, nbytes in found:
        args = (table, partials, n, wide(limit), norm, CHUNK)
        clip_kernel(dtype_name(arrays[0]))((blocks,), (THREADS,), args, 2 * nbytes)
    return norm
