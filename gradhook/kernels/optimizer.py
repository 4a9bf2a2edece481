"""Optimizer steps over many tensors in one launch: the table of pointers is an argument by value,
so nothing is copied to the device.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels.launch import (
    THREADS,
    Kernel,
    address,
    as_argument,
    dtype_name,
    is_on_host,
    sum_type,
)

CHUNK = 8192  # elements a block
_ARGUMENT_BYTES = 3900  # of CUDA's 4096: the rest are numbers

_TABLE = "GRADHOOK_TABLE TensorTable<{arrays}, {room}> table"
_EACH = "    for_each_of_tensors(table, chunk, [&](int t, long long i) {{\n        {call}; }});"
# The numbers of each elementwise step and its flags, beside those that all have: keep and decay;
# maximize. Its function in optimizer.cu has the same name; how many arrays of state there may be.
_ALL = ("keep", "decay"), ("maximize",)
ELEMENTWISE: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "sgd": ("rate momentum share", "nesterov starts", (0, 1)),
    "adam": ("rate eps share1 beta2 share2", "amsgrad", (2, 3)),
    "nadam": ("grad_rate mean_rate unbias eps share1 beta2 share2", "", (2,)),
    "radam": ("rate eps share1 beta2 share2", "rectified", (2,)),
    "adamax": ("rate eps share1 beta2", "", (2,)),
    "adagrad": ("rate eps", "", (1,)),
    "adadelta": ("rate eps rho share", "", (2,)),
    "rmsprop": ("rate eps alpha share momentum", "centered", (1, 2, 3)),
    "rprop": ("shrink grow least most", "", (2,)),
    "asgd": ("rate mu", "", (1,)),
}


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
def fill_kernel(dtype: str) -> Kernel:
    """Every element of all tensors = value."""
    name = f"gradhook_fill_1_{dtype}"
    call = _EACH.format(call="table.template at<T>(0, t, i) = static_cast<T>(value)")
    body = (
        f'extern "C" __global__ void {name}({_TABLE.format(arrays=1, room=room(1))},\n'
        f"    F value, long long chunk) {{\n{call}\n}}"
    )
    return Kernel(name, ("optimizer",), dtype, body)


def fields(functor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of an elementwise step's numbers and of its flags."""
    names, flags, _ = ELEMENTWISE[functor]
    return (*_ALL[0], *names.split()), (*_ALL[1], *flags.split())


@functools.cache
def elementwise_kernel(functor: str, arrays: int, dtype: str) -> Kernel:
    """The kernel of an elementwise step over tensors of so many arrays, the state's being last."""
    full = f"gradhook_{functor}_{arrays}_{dtype}"
    numbers, flags = fields(functor)
    move = f"{functor}<{arrays - 2}, F>(p, g, s, step)"
    call = (
        f"elementwise<{arrays}, T, F>(table, t, i, step,\n"
        f"            [&](F p, F g, F* s) {{ return {move}; }})"
    )
    table = _TABLE.format(arrays=arrays, room=room(arrays))
    body = (
        f"struct Step_{full} {{\n    F {', '.join(numbers)};\n    int {', '.join(flags)};\n}};\n"
        f'extern "C" __global__ void {full}(\n    {table},\n'
        f"    Step_{full} step, long long chunk) {{\n{_EACH.format(call=call)}\n}}"
    )
    return Kernel(full, ("optimizer",), dtype, body)


def runs(functor: str, arrays: int, like: Any) -> bool:
    """Whether the step's kernel runs where `like` is. On NumPy arrays it may not be built."""
    if not is_on_host(like):
        return True
    return elementwise_kernel(functor, arrays, dtype_name(like)).runs_on_host()


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
        found["data"][:, :n] = [[address(r[k]) for r in part] for k in range(arrays)]
        found["size"][:n] = sizes
        found["first_block"][1:n] = ends[:-1]
        found["count"], found["blocks"] = n, ends[-1]
        yield as_argument(table), ends[-1], sum(sizes) * part[0][0].itemsize * arrays


def _stepped(kernel: Kernel, rows: Sequence[tuple[Any, ...]], step: Any) -> None:
    on_host = is_on_host(rows[0][0])
    for table, blocks, nbytes in tables(rows):
        if on_host:
            kernel.on_host(table, step, CHUNK)
        else:
            kernel((blocks,), (THREADS,), (table, step, CHUNK), nbytes)


def elementwise(functor: str, rows: Sequence[tuple[Any, ...]], numbers: dict[str, Any]) -> None:
    """One step of ELEMENTWISE. rows: (parameter, gradient, arrays of the state) each; numbers: at
    least those that `fields` names.
    """
    first, names = rows[0][0], fields(functor)
    wide: Any = sum_type(first.dtype)
    step = np.zeros(1, step_type(*names, wide))
    found = step[0]
    for name in chain(*names):
        found[name] = numbers[name]
    kernel = elementwise_kernel(functor, len(rows[0]), dtype_name(first))
    _stepped(kernel, rows, as_argument(step))


def fill(arrays: Sequence[Any], value: float) -> None:
    """Every element of every array = value."""
    kernel = fill_kernel(dtype_name(arrays[0]))
    _stepped(kernel, [(a,) for a in arrays], sum_type(arrays[0].dtype)(value))


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
