"""Kernels of the negative log-likelihood: with log_softmax's they make cross_entropy, two launches
forward and two backward.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels.launch import C_TYPES, Kernel, is_here, is_plain
from gradhook.kernels.registry import kernel_for
from gradhook.kernels.rows import launch_rows

_NONE = np.iinfo(np.int64).min  # no target is ignored
_COUNTED_BY_EACH_ROW = 4096


@functools.cache
def loss_kernel(dtype: str) -> Kernel:
    """out = minus the scores at the targets, summed or over their count; the batch is one row."""
    name = f"gradhook_nll_loss_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(const T* x, const long long* target, T* out,\n'
        "    long long classes, long long ignored, int mean, long long rows, long long n) {\n"
        "    for_each_row<F>(rows, n, [&](const auto& row) {\n"
        "        const auto loss = class_loss(row, x, Rows<const long long>{target, n}, classes,\n"
        "                                     ignored);\n"
        "        const Row<F> one{0, 1};\n"
        "        one.store(Rows<T>{out, 1}, [&](long long) {\n"
        "            return mean ? loss.sum / loss.count : loss.sum; }); });\n}"
    )
    return Kernel(name, ("rows",), dtype, body)


@functools.cache
def input_kernel(dtype: str) -> Kernel:
    """Zeros, with -grad over the count at each target's class; every row counts the targets."""
    name = f"gradhook_nll_loss_input_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(const T* grad, const long long* target, T* out,\n'
        "    long long ignored, int mean, long long rows, long long n) {\n"
        "    for_each_row<F>(rows, n, [&](const auto& row) {\n"
        "        const Row<F> targets{0, rows};\n"
        "        const F count = !mean ? F(1) : targets.reduce(Add(), F(0), [&](long long i) {\n"
        "            return F(target[i] != ignored); });\n"
        "        const F share = -static_cast<F>(grad[0]) / count;\n"
        "        const long long k = target[row.number];\n"
        "        row.store(Rows<T>{out, n}, [&](long long i) {\n"
        "            return i == k && k != ignored ? share : F(0); }); });\n}"
    )
    return Kernel(name, ("rows",), dtype, body)


def _fits(scores: tuple[int, ...], target: Any, *others: Any) -> bool:
    return (
        len(scores) == 2
        and target.ndim == 1
        and target.dtype == np.int64
        and bool(target.flags.c_contiguous)
        and scores[0] > 0 < scores[1]
        and is_here(target, *others)
    )


@kernel_for("nll_loss")
def nll_loss(
    x: Any, target: Any, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:
    """Kernel of the table's nll_loss for scores (batch, classes)."""
    if not _fits(x.shape, target) or not is_plain(x):
        return NotImplemented
    rows, classes = x.shape
    out = backend.cupy().ndarray((), x.dtype)
    ignored = _NONE if ignore_index is None else ignore_index
    args = (
        x, target, out, np.int64(classes), np.int64(ignored), np.int32(reduction == "mean"),
        np.int64(1), np.int64(rows),
    )  # fmt: skip
    nbytes = rows * (x.itemsize + 8)
    loss_kernel(x.dtype.name)((1,), (256 if rows <= 8192 else 1024,), args, nbytes)
    return out


@kernel_for("nll_loss_input")
def nll_loss_input(
    grad: Any,
    target: Any,
    *,
    shape: tuple[int, ...],
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    """Kernel of the gradient of nll_loss for scores (batch, classes)."""
    if not _fits(shape, target, grad) or grad.shape or grad.dtype.name not in C_TYPES:
        return NotImplemented
    rows, classes = shape
    if rows > _COUNTED_BY_EACH_ROW:
        return NotImplemented
    out = backend.cupy().ndarray(tuple(shape), grad.dtype)
    ignored = _NONE if ignore_index is None else ignore_index
    args = (grad, target, out, np.int64(ignored), np.int32(reduction == "mean"))
    launch_rows(input_kernel(grad.dtype.name), args, rows, classes, out.nbytes)
    return out
