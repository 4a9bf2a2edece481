"""Kernels of normalisation: layer_norm, and in any layout group, batch and instance norm, with
their gradients; running statistics, variance and standard deviation.

Each declines (NotImplemented) what it does not do; the formula then runs.
"""

from __future__ import annotations

import functools
from functools import partial
from math import prod
from typing import Any

import numpy as np

from gradhook.kernels.launch import (
    Kernel,
    dtype_name,
    fresh,
    is_on_host,
    is_plain,
    pointer,
    sum_type,
)
from gradhook.kernels.layouts import (
    Channels,
    Layout,
    axes_of,
    channels,
    each_row,
    launch,
    layout,
)  # fmt: skip
from gradhook.kernels.registry import kernel_for
from gradhook.kernels.rows import launch_rows, row_kernel, sum_middle

SMALL = 1 << 15  # elements, up to which every column block may read the whole array
FILES = ("rows", "norms")
# name -> arguments before those of the layout, and the call for one row
_X, _OUT = "Laid<const T>{x, layout}", "Laid<T>{out, layout}"
_G = "Laid<const T>{g, layout}"
_W = "PerChannel<T>{weight, layout, inner, period}"
_CHANNELS = "unsigned inner, unsigned period"
BODIES = {
    "norm": (
        f"const T* x, const T* weight, const T* bias, T* out, F eps, {_CHANNELS}",
        f"layer_norm(row, {_X}, {_W}, PerChannel<T>{{bias, layout, inner, period}}, "
        f"bias != nullptr, eps, {_OUT})",
    ),
    "norm_vjp": (
        f"const T* g, const T* x, const T* weight, T* out, F* out_weight, F eps, {_CHANNELS}",
        f"layer_norm_vjp(row, {_G}, {_X}, {_W}, eps, {_OUT}, Laid<F>{{out_weight, layout}})",
    ),
    "norm_vjp_all": (
        "const T* g, const T* x, const T* weight, T* out, F* by_weight, F* by_bias, F eps,\n"
        f"    {_CHANNELS}, long long part",
        f"norm_vjp(row, {_G}, {_X}, {_W}, eps, {_OUT}, part, Rows<F>{{by_weight, n / part}}, "
        "Rows<F>{by_bias, n / part})",
    ),
    "running_moments": (
        "const T* x, const T* old_mean, const T* old_var, T* new_mean, T* new_var, F momentum",
        f"running_moments(row, {_X}, Rows<const T>{{old_mean, 1}}, Rows<const T>{{old_var, 1}}, "
        "momentum, Rows<T>{new_mean, 1}, Rows<T>{new_var, 1})",
    ),
    "variance": (
        "const T* x, T* out, F divisor, int root",
        f"variance(row, {_X}, divisor, root, Rows<T>{{out, 1}})",
    ),
    "variance_vjp": (
        "const T* g, const T* x, const T* found, T* out, F factor",
        f"variance_vjp(row, Rows<const T>{{g, 1}}, {_X}, Rows<const T>{{found, 1}}, "
        f"found != nullptr, factor, {_OUT})",
    ),
}


@functools.cache
def norm_kernel(name: str, dtype: str) -> Kernel:
    """The kernel of one functor of kernels/norms.cu for one dtype."""
    return each_row(name, dtype, FILES, *BODIES[name])


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


def _laid(x: Any, axis: Any, weight_shape: Any, *others: Any) -> tuple[Layout, Channels] | None:
    """Rows along any axes that `layout` knows, with numbers a channel; None to decline."""
    given = [o for o in others if o is not None]
    if not x.size or not is_plain(x, *given):
        return None
    rows = layout(x.shape, axes_of(axis, x.ndim))
    found = Channels(1, 1) if weight_shape is None else channels(x.shape, weight_shape)
    return None if rows is None or found is None or rows.is_narrow() else (rows, found)


def _numbers(of: Channels) -> tuple[Any, ...]:
    return np.uint32(of.inner), np.uint32(of.period)


def _any_norm(x: Any, weight: Any, bias: Any, axis: Any, eps: float) -> Any:
    shape = next((p.shape for p in (weight, bias) if p is not None), None)
    fits = weight is None or bias is None or weight.shape == bias.shape
    found = _laid(x, axis, shape, weight, bias) if fits else None
    if found is None:
        return NotImplemented
    rows, of = found
    out = fresh(x, x.shape, x.dtype)
    args = (x, pointer(weight), pointer(bias), out, sum_type(x.dtype)(eps), *_numbers(of))
    launch(norm_kernel("norm", dtype_name(x)), args, rows, 2 * x.nbytes)
    return out


@kernel_for("batch_norm")
def batch_norm(
    x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float = 1e-5
) -> Any:
    """Kernel of the table's batch_norm."""
    return _any_norm(x, weight, bias, axis, eps)


@kernel_for("layer_norm", native=True)
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float = 1e-5
) -> Any:
    """Kernel of the table's layer_norm."""
    n = _normalized(x, axis, weight, bias)
    if not n:
        return _any_norm(x, weight, bias, axis, eps)
    out = fresh(x, x.shape, x.dtype)
    args = (x, pointer(weight), pointer(bias), out, sum_type(x.dtype)(eps))
    launch_rows(row_kernel("layer_norm", dtype_name(x)), args, x.size // n, n, 2 * x.nbytes)
    return out


@kernel_for("standardize_vjp", native=True)
def standardize_vjp(g: Any, x: Any, weight: Any = None, *, axis: Any, eps: float) -> Any:
    """Kernel of the gradients of a normalisation for x and weight."""
    if g.shape != x.shape or not x.size or not is_plain(x, g):
        return NotImplemented
    n = _normalized(x, axis, weight)
    found = None if n else _laid(x, axis, None if weight is None else weight.shape, weight)
    if not n and found is None:
        return NotImplemented
    empty = partial(fresh, x)
    out, wide = empty(x.shape, x.dtype), sum_type(x.dtype)
    out_weight = empty(x.shape, wide)
    args = (g, x, pointer(weight), out, out_weight, wide(eps))
    nbytes = 3 * x.nbytes + out_weight.nbytes
    if found is None:
        launch_rows(row_kernel("layer_norm_vjp", dtype_name(x)), args, x.size // n, n, nbytes)
    else:
        kernel = norm_kernel("norm_vjp", dtype_name(x))
        launch(kernel, (*args, *_numbers(found[1])), found[0], nbytes)
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


@kernel_for("layer_norm_vjp", native=True)
def layer_norm_vjp(
    g: Any, x: Any, weight: Any = None, *, axis: Any, eps: float,
    weight_shape: tuple[int, ...] | None, bias_shape: tuple[int, ...] | None,
) -> Any:  # fmt: skip
    """Kernel of all gradients of a normalisation: of one by channels, and of layer_norm where
    arrays are so small that launches are what costs.
    """
    if weight_shape != bias_shape or weight_shape is None or g.shape != x.shape:
        return NotImplemented
    if not x.size or not is_plain(x, g):
        return NotImplemented
    n = _normalized(x, axis, weight)
    if not n or weight_shape != x.shape[x.ndim - len(weight_shape) :]:
        return _any_norm_vjp(g, x, weight, axis, eps, weight_shape)
    if (x.size > SMALL and not is_on_host(x)) or prod(weight_shape) != n:
        return NotImplemented
    empty = partial(fresh, x)
    out = empty(x.shape, x.dtype)
    by_weight, by_bias = empty(weight_shape, x.dtype), empty(weight_shape, x.dtype)
    rows = x.size // n
    row_blocks = (rows + 7) // 8
    args = (g, x, pointer(weight), out, by_weight, by_bias, sum_type(x.dtype)(eps))
    numbers = (np.int32(row_blocks), rows, n)
    grid = (row_blocks + (n + 31) // 32,)
    layer_norm_kernel(dtype_name(x))(grid, (32, 8), (*args, *numbers), 5 * x.nbytes)
    return out, by_weight, by_bias


def _run(rows: Layout, of: Channels) -> int:
    """How many neighbours in a row are of one channel, where a row has whole channels and all rows
    have them in the order of memory; else 0.
    """
    n = rows.length
    if rows.whole:
        run = min(of.inner, n)
        return run if n % run == 0 and of.inner <= n else 0
    across, far, _, run, _ = (int(k) for k in rows.numbers)
    if across == 1:  # of a batch
        return n if (of.inner, of.period) == (run, rows.rows) and far == run else 0
    return n if (of.inner, of.period) == (1, rows.inner) else 0


def _any_norm_vjp(
    g: Any, x: Any, weight: Any, axis: Any, eps: float, shape: tuple[int, ...]
) -> Any:
    """One launch, and one each that adds what several rows give a channel."""
    found = _laid(x, axis, shape, weight)
    run = 0 if found is None else _run(*found)
    if found is None or not run:
        return NotImplemented
    rows, of = found
    lead = rows.rows * (rows.length // run) // of.period
    empty, wide = partial(fresh, x), np.dtype(sum_type(x.dtype))
    out, parts = empty(x.shape, x.dtype), shape if lead == 1 else (lead, of.period)
    by_weight, by_bias = empty(parts, wide), empty(parts, wide)
    args = (g, x, pointer(weight), out, by_weight, by_bias, wide.type(eps), *_numbers(of), run)
    launch(norm_kernel("norm_vjp_all", dtype_name(x)), args, rows, 4 * x.nbytes)
    if lead > 1:
        by_weight, by_bias = (sum_middle(s, 1, of.period, shape) for s in (by_weight, by_bias))
    return out, by_weight, by_bias


# ---- statistics


@kernel_for("running_moments", native=True)
def running_moments(x: Any, mean: Any, var: Any, *, axis: Any, momentum: float) -> Any:
    """Kernel of the table's running_moments."""
    rows = layout(x.shape, axes_of(axis, x.ndim)) if is_plain(x, mean, var) else None
    if rows is None or rows.is_narrow() or not mean.size == var.size == rows.rows:
        return NotImplemented
    empty = partial(fresh, x)
    found = empty(mean.shape, x.dtype), empty(var.shape, x.dtype)
    args = (x, mean, var, *found, sum_type(x.dtype)(momentum))
    launch(norm_kernel("running_moments", dtype_name(x)), args, rows, x.nbytes)
    return found


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple([1 if k in axes else n for k, n in enumerate(shape)])
    return tuple([n for k, n in enumerate(shape) if k not in axes])


def _variance(x: Any, axis: Any, correction: float, keepdims: bool, root: bool) -> Any:
    axes = axes_of(axis, x.ndim)
    rows = layout(x.shape, axes) if is_plain(x) else None
    if rows is None or rows.is_narrow():
        return NotImplemented
    out = fresh(x, _reduced(x.shape, axes, keepdims), x.dtype)
    divisor = max(rows.length - correction, 0)
    args = (x, out, sum_type(x.dtype)(divisor), np.int32(root))
    launch(norm_kernel("variance", dtype_name(x)), args, rows, x.nbytes + out.nbytes)
    return out


@kernel_for("var", native=True)
def var(x: Any, *, axis: Any = None, correction: float = 1, keepdims: bool = False) -> Any:
    """Kernel of the table's var."""
    return _variance(x, axis, correction, keepdims, False)


@kernel_for("std", native=True)
def std(x: Any, *, axis: Any = None, correction: float = 1, keepdims: bool = False) -> Any:
    """Kernel of the table's std."""
    return _variance(x, axis, correction, keepdims, True)


def _variance_vjp(g: Any, x: Any, found: Any, axis: Any, correction: float) -> Any:
    given = (x, g) if found is None else (x, g, found)
    rows = layout(x.shape, axes_of(axis, x.ndim)) if is_plain(*given) else None
    if rows is None or rows.is_narrow() or g.size != rows.rows:
        return NotImplemented
    divisor = rows.length - correction
    out, wide = fresh(x, x.shape, x.dtype), sum_type(x.dtype)
    factor = wide(2 / divisor if divisor > 0 else np.nan)
    args = (g, x, pointer(found), out, factor)
    launch(norm_kernel("variance_vjp", dtype_name(x)), args, rows, 2 * x.nbytes)
    return out


@kernel_for("var_vjp", native=True)
def var_vjp(g: Any, x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
    """Kernel of the gradient of var."""
    return _variance_vjp(g, x, None, axis, correction)


@kernel_for("std_vjp", native=True)
def std_vjp(g: Any, x: Any, out: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
    """Kernel of the gradient of std."""
    return _variance_vjp(g, x, out, axis, correction)
