"""Kernels of running sums, products and extrema along any axis, and of their gradients: one launch
each.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradhook.kernels.launch import Kernel, dtype_name, is_plain, sum_type
from gradhook.kernels.layouts import Layout, axes_of, each_row, launch, layout
from gradhook.kernels.registry import kernel_for

FILES = ("rows", "norms", "scans")
_X, _OUT, _G = "Laid<const T>{x, layout}", "Laid<T>{out, layout}", "Laid<const T>{g, layout}"


def _running(combine: str, neutral: str, from_end: bool = False) -> tuple[str, str]:
    end = str(from_end).lower()
    return "const T* x, T* out", f"running(row, {_X}, {_OUT}, {end}, {combine}(), {neutral})"


def _extreme(sign: int) -> tuple[str, str]:
    return (
        "const T* x, T* out, long long* index",
        f"running_extreme<{sign}>(row, {_X}, {_OUT}, Laid<long long>{{index, layout}})",
    )


# name -> arguments before those of the layout, and the call for one row
BODIES = {
    "cumsum": _running("Add", "F(0)"),
    "reverse_cumsum": _running("Add", "F(0)", True),
    "cumprod": _running("Multiply", "F(1)"),
    "logcumsumexp": _running("LogAddExp", "F(-1) / F(0)"),
    "cummax": _extreme(1),
    "cummin": _extreme(-1),
    "cumprod_vjp": (
        "const T* g, const T* x, F* before, T* out",
        f"cumprod_vjp(row, {_G}, {_X}, Laid<F>{{before, layout}}, {_OUT})",
    ),
    "logcumsumexp_vjp": (
        "const T* g, const T* x, const T* y, T* out",
        f"logcumsumexp_vjp(row, {_G}, {_X}, Laid<const T>{{y, layout}}, {_OUT})",
    ),
}


@functools.cache
def scan_kernel(name: str, dtype: str) -> Kernel:
    """The kernel of one functor of kernels/scans.cu for one dtype."""
    return each_row(name, dtype, FILES, *BODIES[name])


def _rows(axis: int, x: Any, *others: Any) -> Layout | None:
    """The rows along an axis of arrays of one shape; None to decline."""
    if not x.ndim or not -x.ndim <= axis < x.ndim or not is_plain(x, *others):
        return None
    if any([o.shape != x.shape for o in others]):
        return None
    return layout(x.shape, axes_of(axis, x.ndim))


def _scan(name: str, x: Any, axis: int, dtype: Any = None) -> Any:
    rows = _rows(axis, x) if dtype is None or x.dtype == dtype else None
    if rows is None:
        return NotImplemented
    out = type(x)(x.shape, x.dtype)
    launch(scan_kernel(name, dtype_name(x)), (x, out), rows, 2 * x.nbytes)
    return out


@kernel_for("cumsum")
def cumsum(x: Any, *, axis: int, dtype: Any = None) -> Any:
    """Kernel of the table's cumsum."""
    return _scan("cumsum", x, axis, dtype)


@kernel_for("reverse_cumsum")
def reverse_cumsum(x: Any, *, axis: int) -> Any:
    """Kernel of the gradient of cumsum."""
    return _scan("reverse_cumsum", x, axis)


@kernel_for("cumprod")
def cumprod(x: Any, *, axis: int, dtype: Any = None) -> Any:
    """Kernel of the table's cumprod."""
    return _scan("cumprod", x, axis, dtype)


@kernel_for("logcumsumexp")
def logcumsumexp(x: Any, *, axis: int) -> Any:
    """Kernel of the table's logcumsumexp."""
    return _scan("logcumsumexp", x, axis)


def _extremes(name: str, x: Any, axis: int) -> Any:
    rows = _rows(axis, x)
    if rows is None:
        return NotImplemented
    out, index = type(x)(x.shape, x.dtype), type(x)(x.shape, np.int64)
    args = (x, out, index)
    launch(scan_kernel(name, dtype_name(x)), args, rows, 2 * x.nbytes + index.nbytes)
    return out, index


@kernel_for("cummax")
def cummax(x: Any, *, axis: int) -> Any:
    """Kernel of the table's cummax."""
    return _extremes("cummax", x, axis)


@kernel_for("cummin")
def cummin(x: Any, *, axis: int) -> Any:
    """Kernel of the table's cummin."""
    return _extremes("cummin", x, axis)


@kernel_for("cumprod_vjp")
def cumprod_vjp(g: Any, x: Any, *, axis: int) -> Any:
    """Kernel of the gradient of cumprod."""
    rows = _rows(axis, x, g)
    if rows is None:
        return NotImplemented
    out, wide = type(x)(x.shape, x.dtype), sum_type(x.dtype)
    before = out if x.dtype == wide else type(x)(x.shape, wide)
    args = (g, x, before, out)
    launch(scan_kernel("cumprod_vjp", dtype_name(x)), args, rows, 4 * x.nbytes)
    return out


@kernel_for("logcumsumexp_vjp")
def logcumsumexp_vjp(g: Any, x: Any, out: Any, *, axis: int) -> Any:
    """Kernel of the gradient of logcumsumexp."""
    rows = _rows(axis, x, g, out)
    if rows is None:
        return NotImplemented
    found = type(x)(x.shape, x.dtype)
    kernel = scan_kernel("logcumsumexp_vjp", dtype_name(x))
    launch(kernel, (g, x, out, found), rows, 4 * x.nbytes)
    return found
