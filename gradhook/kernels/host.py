"""What NumPy computes in less time than the formulas say: large arrays part by part, in few calls
that write into memory that is there.

Each declines (NotImplemented) what it does not do; the formula then runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gradhook.kernels.parts import LONGEST_ROW, PART, are_large, rows_a_part, scratch, slices
from gradhook.kernels.registry import host_kernel_for

Array = Any
SAFE = 40.0  # exp of -SAFE to SAFE is far from overflow and from denormal numbers, even summed


@lru_cache(64)
def ones(n: int, kind: str) -> Array:
    """n ones, kept: a product with them is a sum, in a third of NumPy's time."""
    return np.ones(n, kind)


def rows_of(x: Array, axis: int, *others: Array) -> tuple[Array, ...] | None:
    """Large arrays as matrices whose rows lie along `axis`; None to decline."""
    if not are_large(x, *others) or axis not in (-1, x.ndim - 1):
        return None
    n = x.shape[-1]
    if not 16 <= n <= LONGEST_ROW:
        return None
    return tuple([a.reshape(-1, n) for a in (x, *others)])


# ---- softmax


@host_kernel_for("softmax")
def softmax(x: Array, *, axis: int) -> Array:
    """Kernel of the table's softmax along the last axis."""
    found = rows_of(x, axis)
    if found is None:
        return NotImplemented
    (rows,) = found
    out = np.empty_like(rows)
    count, n = rows.shape
    for part in slices(count, rows_a_part(n)):
        given, to = rows[part], out[part]
        if not (given.max() < SAFE and given.min() > -SAFE):  # NaN, too
            given = np.subtract(given, given.max(axis=1, keepdims=True), out=to)
        np.exp(given, out=to)
        to /= np.dot(to, ones(n, to.dtype.char))[:, None]
    return out.reshape(x.shape)


@host_kernel_for("softmax_vjp")
def softmax_vjp(g: Array, out: Array, *, axis: int) -> Array:
    """Kernel of the gradient of softmax along the last axis."""
    found = rows_of(g, axis, out)
    if found is None:
        return NotImplemented
    gradients, weights = found
    result = np.empty_like(gradients)
    for part in slices(len(result), rows_a_part(result.shape[1])):
        by, seen, to = gradients[part], weights[part], result[part]
        np.subtract(by, np.vecdot(by, seen)[:, None], out=to)
        to *= seen
    return result.reshape(g.shape)


# ---- relu


@host_kernel_for("relu_vjp")
def relu_vjp(grad: Array, y: Array) -> Array:
    """Kernel of the gradient of relu, by masking bits: NumPy's where costs ten times that."""
    if not are_large(grad, y):
        return NotImplemented
    out, bits = np.empty_like(grad), f"i{grad.dtype.itemsize}"
    given, result, flat = grad.reshape(-1).view(bits), out.reshape(-1).view(bits), y.reshape(-1)
    off, kept = np.empty(PART, np.bool_), scratch("relu", (PART,), result.dtype)
    for part in slices(flat.size, PART):
        to = result[part]
        zero, mask = off[: to.size], kept[: to.size]
        np.less_equal(flat[part], 0, out=zero)
        np.copyto(mask, zero.view(np.int8))
        np.subtract(mask, 1, out=mask)
        np.bitwise_and(mask, given[part], out=to)
    return out


# ---- gelu

# atanh(erf(z)) / z as a polynomial in z², a fit of our own: 1e-7 relative of erf up to |z| = 4.1
ATANH_ERF = (
    1.4185484556016106e-07,
    -5.66852466379998e-06,
    8.763765059555741e-05,
    -0.0006197855881540564,
    -0.00019182963266930553,
    0.10276905523078994,
    1.12837927437387,
)
# the same of 2 P(x) - 1 = erf(x / sqrt(2)), P being the normal distribution function; beyond
# |x| = 5.8 it is 0 or 1 in float32
_FURTHEST = np.float32(33.62)
_NORMAL = tuple([np.float32(c * 0.5 ** (6.5 - k)) for k, c in enumerate(ATANH_ERF)])


def _twice_normal(x: Array, square: Array, out: Array) -> Array:
    """2 P(x) of float32 numbers, into `out`. square: x², which becomes scratch."""
    np.minimum(square, _FURTHEST, out=square)
    np.multiply(square, _NORMAL[0], out=out)
    np.add(out, _NORMAL[1], out=out)
    for c in _NORMAL[2:]:
        np.multiply(out, square, out=out)
        np.add(out, c, out=out)
    np.multiply(out, x, out=out)
    np.tanh(out, out=out)
    return np.add(out, np.float32(1), out=out)


def _float32_parts(*arrays: Array) -> Any:
    """Parts of large float32 arrays, of an array for the result and of scratch; None to decline."""
    if arrays[0].dtype.char != "f" or not are_large(*arrays):
        return None
    out = np.empty_like(arrays[0])
    flat = [a.reshape(-1) for a in (*arrays, out)]
    held = scratch("gelu", (2, PART), out.dtype)
    parts = ([a[part] for a in flat] for part in slices(out.size, PART))
    return out, ((*part, *held[:, : part[0].size]) for part in parts)


@host_kernel_for("gelu")
def gelu(x: Array, *, approximate: str = "none") -> Array:
    """Kernel of the table's exact gelu in float32."""
    found = _float32_parts(x) if approximate == "none" else None
    if found is None:
        return NotImplemented
    out, parts = found
    for given, to, square, _ in parts:
        np.multiply(given, given, out=square)
        _twice_normal(given, square, to)
        np.multiply(given, np.float32(0.5), out=square)
        np.multiply(to, square, out=to)
    return out


@host_kernel_for("gelu_vjp")
def gelu_vjp(g: Array, x: Array, *, approximate: str) -> Array:
    """Kernel of the gradient of exact gelu in float32: g (P(x) + x p(x))."""
    found = _float32_parts(g, x) if approximate == "none" else None
    if found is None:
        return NotImplemented
    out, parts = found
    for by, given, to, square, density in parts:
        np.multiply(given, given, out=square)
        np.multiply(square, np.float32(-0.5), out=density)
        np.exp(density, out=density)
        np.multiply(density, given, out=density)
        np.multiply(density, np.float32(0.7978845608028654), out=density)
        _twice_normal(given, square, to)
        np.add(to, density, out=to)
        np.multiply(to, np.float32(0.5), out=to)
        np.multiply(to, by, out=to)
    return out
