"""Covariance and correlation, finite-difference gradients, mode, frexp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradhook import backend, dtypes, return_types
from gradhook.ops.axes import wrap
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = ("cov", "corrcoef", "gradient", "mode", "frexp")
METHODS = ("cov", "corrcoef", "mode", "frexp")
PROPERTIES: tuple[str, ...] = ()


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> return_types.mode:
    """The most frequent value along dim (the smallest of several) and its last index.

    Real; values of input's dtype, indices int64.
    """
    return return_types.mode(*multi.mode(input, axis=dim, keepdims=keepdim))


def frexp(input: Tensor) -> return_types.frexp:
    """Mantissa in [0.5, 1) and int32 exponent. Errors: RuntimeError unless input is floating.

    Result: two of the shape of input.
    """
    return return_types.frexp(*multi.frexp(input))


def _weights(name: str, w: Tensor | None, kinds: str, words: str, count: int) -> Tensor | None:
    """Checked weights of observations."""
    if w is None:
        return None
    if w.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{w.ndim} dimensions"
        )
    if w._a.dtype.kind not in kinds:
        raise RuntimeError(
            f"cov(): expected {name} to have {words} dtype but got {name} with {w.dtype.title} "
            "dtype"
        )
    if w.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the "
            f"input but got {w.numel()} != {count}"
        )
    if w.device is backend.CPU and bool((w._a < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")
    return w


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Covariance of variables (rows) over observations (columns).

    input: at most 2 dimensions, a vector is one variable. fweights: how often an observation
    counts, ints; aweights: its importance, floating. Result: (rows, rows), or 0-d of one variable.
    Errors: RuntimeError; negative weights are looked for on the CPU only.
    """
    if input.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    if input._a.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input.ndim == 2 else ops.reshape(input, shape=(1, -1))
    if x._a.dtype.kind in "iu":
        x = ops.cast(x, dtype=dtypes.get_default_dtype())
    n = x.shape[1]
    f = _weights("fweights", fweights, "iu", "integral", n)
    a = _weights("aweights", aweights, "f", "floating point", n)
    w = f if a is None else a if f is None else ops.multiply(f, a)
    if w is None:
        total: Any = n
        centre = ops.divide(ops.sum(x, axis=1, keepdims=True), n)
        divisor: Any = n - correction
    else:
        total = ops.sum(w)
        if w.device is backend.CPU and not bool(total._a != 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        centre = ops.divide(ops.sum(ops.multiply(x, w), axis=1, keepdims=True), total)
        share = 1 if a is None else ops.divide(ops.sum(ops.multiply(w, a)), total)
        divisor = ops.subtract(
            total, ops.multiply(share, correction) if a is not None else correction
        )
    apart = ops.subtract(x, centre)
    weighed = apart if w is None else ops.multiply(apart, w)
    products = ops.matmul(weighed, ops.conj(ops.t(apart)))
    if isinstance(divisor, Tensor):
        divisor = ops.clip_low(divisor, 0)
        found = ops.divide(products, ops.cast(divisor, dtype=apart._a.real.dtype))
    else:
        found = ops.divide(products, max(divisor, 0))
    return ops.squeeze(found)


def corrcoef(input: Tensor) -> Tensor:
    """Correlation of variables (rows) over observations (columns), each in [-1, 1].

    input: at most 2 dimensions. Result: (rows, rows), or 0-d of one variable. Errors: as cov.
    Floating or complex.
    """
    if input.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    found = cov(input)
    if found.ndim == 0:
        return ops.divide(found, found)
    spread = ops.sqrt(ops.real(ops.diagonal(found)) if found.is_complex() else ops.diagonal(found))
    found = ops.divide(ops.divide(found, ops.expand_dims(spread, axis=1)), spread)
    if found.is_complex():
        return ops.complex(ops.clip(ops.real(found), -1, 1), ops.clip(ops.imag(found), -1, 1))
    return ops.clip(found, -1, 1)


def gradient(
    input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivative along each dimension by differences of neighbours, of second order inside.

    spacing: the distance between points, one for all (1) or one a dimension, or their coordinates,
    vectors. dim: one or several, all without. edge_order: the order at the ends, 1 or 2.
    Floating or complex.
    Errors: RuntimeError for other numbers of spacings, coordinates, points and edge orders.
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if isinstance(spacing, Tensor):
        raise TypeError("gradient(): spacing must be a number or a list of numbers or of vectors")
    given = [dim] if isinstance(dim, int) else range(input.ndim) if dim is None else dim
    axes = [wrap(int(a), input.ndim) for a in given]
    for a in axes:
        if axes.count(a) > 1:
            raise RuntimeError(f"dim {a} appears multiple times in the list of dims")
    several = isinstance(spacing, Sequence)
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if several else [spacing] * len(axes)
    if len(steps) != len(axes):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to the number of dimensions, {len(axes)}, but got a list of length {len(steps)}"
        )
    if any(input.shape[a] < edge_order + 1 for a in axes):
        raise RuntimeError(
            "torch.gradient expected each dimension size to be at least edge_order+1"
        )
    return tuple(_slope(input, a, h, edge_order) for a, h in zip(axes, steps, strict=True))


def _slope(x: Tensor, axis: int, h: Any, order: int) -> Tensor:
    """The derivative along one axis."""
    n, lead = x.shape[axis], (slice(None),) * axis

    def at(start: int, stop: int) -> Tensor:
        return ops.slice_view(x, index=(*lead, slice(start, stop)))

    left, right = _edges(x, axis, h, order, at)
    if n == 2:
        return ops.concat(left, right, axis=axis)
    if not isinstance(h, Tensor):
        inner = ops.divide(ops.subtract(at(2, n), at(0, n - 2)), 2 * h)
        return ops.concat(left, inner, right, axis=axis)
    gaps = _gaps(x, axis, h)
    before, after = gaps[:-1], gaps[1:]
    shape = (-1, *(1,) * (x.ndim - 1 - axis))
    low = ops.reshape(-after / (before * (before + after)), shape=shape)
    middle = ops.reshape((after - before) / (before * after), shape=shape)
    high = ops.reshape(before / (after * (before + after)), shape=shape)
    inner = at(0, n - 2) * low + at(1, n - 1) * middle + at(2, n) * high
    return ops.concat(left, inner, right, axis=axis)


def _gaps(x: Tensor, axis: int, h: Tensor) -> Tensor:
    """The distances between coordinates. Errors: RuntimeError unless there is one a point."""
    if h.ndim != 1 or h.shape[0] != x.shape[axis]:
        raise RuntimeError(
            "torch.gradient expected the coordinates of a dimension to be a vector of its "
            f"{x.shape[axis]} points, but got shape {list(h.shape)}"
        )
    return h[1:] - h[:-1]


def _edges(x: Tensor, axis: int, h: Any, order: int, at: Any) -> tuple[Tensor, Tensor]:
    """The derivative at the first and at the last point."""
    n = x.shape[axis]
    gaps = _gaps(x, axis, h) if isinstance(h, Tensor) else None
    a = h if gaps is None else gaps[0]
    z = h if gaps is None else gaps[-1]
    if order == 1:
        return (
            ops.divide(ops.subtract(at(1, 2), at(0, 1)), a),
            ops.divide(ops.subtract(at(n - 1, n), at(n - 2, n - 1)), z),
        )
    b = h if gaps is None else gaps[1]
    y = h if gaps is None else gaps[-2]
    left = (
        at(0, 1) * (-(2 * a + b) / (a * (a + b)))
        + at(1, 2) * ((a + b) / (a * b))
        - at(2, 3) * (a / (b * (a + b)))
    )
    right = (
        at(n - 1, n) * ((2 * z + y) / (z * (z + y)))
        - at(n - 2, n - 1) * ((z + y) / (z * y))
        + at(n - 3, n - 2) * (z / (y * (z + y)))
    )
    return left, right
