"""layer_norm over the last axis on NumPy, and all its gradients, some rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.kernels.host import ones, rows_of
from gradhook.kernels.parts import rows_a_part, scratch, slices
from gradhook.kernels.registry import host_kernel_for

Array = Any


def _rows(x: Array, axis: Any, *others: Array | None) -> Array | None:
    """x as a matrix, where `axis` is the last one and the others are None or vectors along it."""
    if not isinstance(axis, int):
        if len(axis) != 1:
            return None
        (axis,) = axis
    shape, dtype = x.shape[-1:], x.dtype
    if not all([o is None or (o.shape == shape and o.dtype == dtype) for o in others]):
        return None
    found = rows_of(x, axis)
    return None if found is None else found[0]


def _standardized(given: Array, eps: Any, out: Array) -> Array:
    """Rows less their mean over their deviation, into `out`; the inverse of the deviation."""
    n = given.shape[1]
    mean = np.dot(given, ones(n, given.dtype.char))
    mean /= n
    np.subtract(given, mean[:, None], out=out)
    scale = np.vecdot(out, out)
    scale /= n
    scale += eps
    np.sqrt(scale, out=scale)
    inverse = np.divide(1, scale, out=scale)[:, None]
    np.multiply(out, inverse, out=out)
    return inverse


@host_kernel_for("layer_norm")
def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axis: Any,
    eps: float = 1e-5,
) -> Array:
    """Kernel of the table's layer_norm over the last axis."""
    rows = _rows(x, axis, weight, bias)
    if rows is None:
        return NotImplemented
    out = np.empty_like(rows)
    small = x.dtype.type(eps)
    for part in slices(len(rows), rows_a_part(rows.shape[1])):
        to = out[part]
        _standardized(rows[part], small, to)
        if weight is not None:
            to *= weight
        if bias is not None:
            to += bias
    return out.reshape(x.shape)


@host_kernel_for("layer_norm_vjp")
def layer_norm_vjp(
    g: Array, x: Array, weight: Array | None = None, *, axis: Any, eps: float,
    weight_shape: tuple[int, ...] | None, bias_shape: tuple[int, ...] | None,
) -> Any:  # fmt: skip
    """Kernel of all gradients of layer_norm over the last axis."""
    shape = x.shape[-1:]
    if g.shape != x.shape or g.dtype != x.dtype or not g.flags.c_contiguous:
        return NotImplemented
    if weight_shape not in (None, shape) or bias_shape not in (None, shape):
        return NotImplemented
    rows = _rows(x, axis, weight)
    if rows is None:
        return NotImplemented
    gradients = g.reshape(rows.shape)
    n, kind, small = rows.shape[1], x.dtype.char, x.dtype.type(eps)
    result = np.empty_like(rows)
    by_weight, by_bias = np.zeros(n, kind), np.zeros(n, kind)
    step = rows_a_part(n)
    held = scratch("norm", (2, step, n), x.dtype)
    for part in slices(len(rows), step):
        by, to = gradients[part], result[part]
        count = len(by)
        y, other = held[:, :count]
        inverse = _standardized(rows[part], small, y)
        by_bias += np.dot(ones(count, kind), by)
        by_weight += np.dot(ones(count, kind), np.multiply(by, y, out=other))
        h = by if weight is None else np.multiply(by, weight, out=other)
        shares = np.vecdot(h, y)
        shares /= n
        mean = np.dot(h, ones(n, kind))
        mean /= n
        np.subtract(h, mean[:, None], out=to)
        to -= np.multiply(y, shares[:, None], out=y)
        to *= inverse
    return (
        result.reshape(x.shape),
        None if weight_shape is None else by_weight,
        None if bias_shape is None else by_bias,
    )
