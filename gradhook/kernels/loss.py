"""Kernels of the losses of class indices: one launch forward and one backward each."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from gradhook.kernels.launch import (
    NAMES,
    THREADS,
    Kernel,
    dtype_name,
    fresh,
    is_contiguous,
    is_here,
    is_known,
    is_on_host,
    is_plain,
    pointer,
    sum_type,
)
from gradhook.kernels.registry import kernel_for
from gradhook.kernels.rows import launch_rows, rows_grid
from gradhook.kernels.workspace import MOST_BLOCKS, workspace

FILES = ("rows", "loss")
_NONE = np.iinfo(np.int64).min  # no target is ignored
# targets whose shares every row of a backward kernel adds up anew: on a GPU, on the CPU
COUNTED_BY_EACH_ROW = (1024, 48)
_TARGETS = "const Targets<T, F> targets{target, Columns<T>{weight}, ignored, smoothing};"


@functools.cache
def loss_kernel(name: str, dtype: str) -> Kernel:
    """Each target's loss to `each`, or where that is null their sum or mean to `out`."""
    full = f"gradhook_{name}_{dtype}"
    body = (
        f'extern "C" __global__ void {full}(const T* x, const long long* target,\n'
        "    const T* weight, T* out, T* each, Loss<F>* partials, unsigned* arrived,\n"
        "    long long inner, long long ignored, F smoothing, int mean, long long rows,\n"
        "    long long n) {\n"
        f"    {_TARGETS}\n"
        "    const auto over = [&](const auto scores) {\n"
        "        const auto loss = [&](const auto& row) {\n"
        f"            return {name}(row, scores, targets); }};\n"
        "        if (each) {\n"
        "            for_each_row<F>(rows, n, [&](const auto& row) {\n"
        "                const F found = loss(row).sum;\n"
        "                const Row<F> one{row.number, 1};\n"
        "                one.store(Rows<T>{each, 1}, [&](long long) { return found; }); });\n"
        "            return;\n"
        "        }\n"
        "        reduce_rows<F>(rows, n, Loss<F>{F(0), F(0)}, AddLosses(), loss, partials,\n"
        "            arrived, [&](Loss<F> all) {\n"
        "                *out = static_cast<T>(mean ? all.sum / all.count : all.sum); });\n"
        "    };\n"
        "    if (inner == 1) over(Rows<const T>{x, n});\n"
        "    else over(Scores<const T>{x, n, inner});\n}"
    )
    return Kernel(full, FILES, dtype, body)


@functools.cache
def input_kernel(name: str, dtype: str) -> Kernel:
    """The gradient for the scores. count: the sum of the shares, or null: every row adds them."""
    full = f"gradhook_{name}_{dtype}"
    reads = name == "cross_entropy_input"
    scores = "scores, " if reads else ""
    calls = (
        ("Rows<const T>{x, n}", "Rows<T>{out, n}"),
        ("Scores<const T>{x, n, inner}", "Scores<T>{out, n, inner}"),
    )
    dense, strided = (", ".join(pair[0 if reads else 1 :]) for pair in calls)
    body = (
        f'extern "C" __global__ void {full}(const T* grad, {"const T* x, " if scores else ""}\n'
        "    const long long* target, const T* weight, T* out, const F* count, long long inner,\n"
        "    long long ignored, F smoothing, int mean, int each, long long rows, long long n) {\n"
        f"    {_TARGETS}\n"
        f"    const auto over = [&]({'const auto scores, ' if reads else ''}const auto places) {{\n"
        "        for_each_row<F>(rows, n, [&](const auto& row) {\n"
        "            F g = static_cast<F>(grad[each ? row.number : 0]);\n"
        "            if (mean) g = g / (count ? *count : all_shares(row, targets, rows, n));\n"
        f"            {name}(row, g, {scores}targets, places); }});\n    }};\n"
        f"    if (inner == 1) over({dense});\n    else over({strided});\n}}"
    )
    return Kernel(full, FILES, dtype, body)


@functools.cache
def shares_kernel(dtype: str) -> Kernel:
    """out = the sum of the shares of many targets."""
    name = f"gradhook_class_shares_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(const long long* target, const T* weight, F* out,\n'
        "    F* partials, unsigned* arrived, long long ignored, long long n, long long classes) {\n"
        "    const F smoothing = 0;\n"
        f"    {_TARGETS}\n"
        "    F sum = 0;\n"
        "    take_elements(n, [&](long long i) { sum += targets.share(i, classes); });\n"
        "    reduce_grid(sum, F(0), Add(), partials, arrived, [&](F all) { *out = all; });\n}"
    )
    return Kernel(name, FILES, dtype, body)


def _fits(scores: tuple[int, ...], target: Any, weight: Any, *others: Any) -> bool:
    """Whether the kernels take scores of this shape with these arrays."""
    axis = 0 if len(scores) == 1 else 1
    return (
        target.dtype == np.int64
        and target.shape == scores[:axis] + scores[axis + 1 :]
        and prod(scores) > 0
        and is_contiguous(target)
        and is_here(target)
        and is_plain(*others)
        and (weight is None or (is_plain(others[0], weight) and weight.ndim == 1))
    )


def _numbers(
    shape: tuple[int, ...], ignore_index: int | None, label_smoothing: float, mean: bool, dtype: Any
) -> tuple[Any, ...]:
    inner = prod(shape[2:])
    ignored = _NONE if ignore_index is None else ignore_index
    smoothing = sum_type(dtype)(label_smoothing)
    return inner, ignored, smoothing, np.int32(mean)


def _loss(
    name: str, x: Any, target: Any, weight: Any, ignore_index: int | None, reduction: str,
    label_smoothing: float,
) -> Any:  # fmt: skip
    if x.ndim == 0 or not _fits(x.shape, target, weight, x):
        return NotImplemented
    n = int(x.shape[0 if x.ndim == 1 else 1])
    rows, room = x.size // n, workspace(target)
    out = fresh(x, target.shape if reduction == "none" else (), x.dtype)
    numbers = _numbers(x.shape, ignore_index, label_smoothing, reduction == "mean", x.dtype)
    places = (None, out) if reduction == "none" else (out, None)
    args = (x, target, pointer(weight), *map(pointer, places), room.partials, room.arrived)
    (blocks,), block = rows_grid(rows, n)
    grid = (min(blocks, MOST_BLOCKS),)
    nbytes = x.nbytes if name == "cross_entropy" or label_smoothing else rows * x.itemsize
    kernel = loss_kernel(name, dtype_name(x))
    kernel(grid, block, (*args, *numbers, rows, n), nbytes + target.nbytes)
    return out


def _input(
    name: str, shape: tuple[int, ...], grad: Any, x: Any, target: Any, weight: Any,
    ignore_index: int | None, reduction: str, label_smoothing: float,
) -> Any:  # fmt: skip
    given = (grad,) if x is None else (grad, x)
    if not is_known(grad) or not _fits(shape, target, weight, *given):
        return NotImplemented
    each = reduction == "none"
    if grad.shape != (target.shape if each else ()):
        return NotImplemented
    n = int(shape[0 if len(shape) == 1 else 1])
    rows, count = target.size, None
    if reduction == "mean" and rows > COUNTED_BY_EACH_ROW[is_on_host(grad)]:
        count = _count(grad.dtype, target, weight, ignore_index, n)
    out = fresh(grad, tuple(shape), grad.dtype)
    numbers = _numbers(shape, ignore_index, label_smoothing, reduction == "mean", grad.dtype)
    args = (*given, target, pointer(weight), out, pointer(count), *numbers, np.int32(each))
    nbytes = out.nbytes * len(given) + target.nbytes
    launch_rows(input_kernel(name, dtype_name(grad)), args, rows, n, nbytes)
    return out


def _count(dtype: Any, target: Any, weight: Any, ignore_index: int | None, n: int) -> Any:
    room, size = workspace(target), target.size
    out = fresh(target, (), sum_type(dtype))
    ignored = _NONE if ignore_index is None else ignore_index
    args = (target, pointer(weight), out, room.partials, room.arrived, ignored)
    grid = (min((size + THREADS - 1) // THREADS, MOST_BLOCKS),)
    kernel = shares_kernel(NAMES[dtype.char])
    kernel(grid, (THREADS,), (*args, size, n), target.nbytes)
    return out


@kernel_for("nll_loss", native=True)
def nll_loss(
    x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Kernel of the table's nll_loss."""
    return _loss("nll_loss", x, target, weight, ignore_index, reduction, label_smoothing)


@kernel_for("cross_entropy", native=True)
def cross_entropy(
    x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Kernel of the table's cross_entropy."""
    return _loss("cross_entropy", x, target, weight, ignore_index, reduction, label_smoothing)


@kernel_for("nll_loss_input", native=True)
def nll_loss_input(
    grad: Any, target: Any, weight: Any = None, *, shape: tuple[int, ...],
    ignore_index: int | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Kernel of the gradient of nll_loss."""
    return _input(
        "nll_loss_input", tuple(shape), grad, None, target, weight, ignore_index, reduction,
        label_smoothing,
    )  # fmt: skip


@kernel_for("cross_entropy_input", native=True)
def cross_entropy_input(
    grad: Any, x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Kernel of the gradient of cross_entropy."""
    return _input(
        "cross_entropy_input", x.shape, grad, x, target, weight, ignore_index, reduction,
        label_smoothing,
    )  # fmt: skip
