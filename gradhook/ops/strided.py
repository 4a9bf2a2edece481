"""Views of memory by sizes and strides (as_strided), and their transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.ops.table import op

Shape = tuple[int, ...]


def view_of_memory(x: Any, size: Shape, stride: Shape, delta: int) -> Any:
    """The array of these sizes and strides (in elements) that begins delta elements after x.

    Raw, NumPy or CuPy; the caller has checked that the memory is there.
    """
    steps = tuple(s * x.itemsize for s in stride)
    if type(x).__module__ != "numpy":
        return type(x)(size, x.dtype, memptr=x.data + delta * x.itemsize, strides=steps)
    as_strided = np.lib.stride_tricks.as_strided
    if delta:  # the second of two elements that lie delta apart
        x = as_strided(x, (2,), (delta * x.itemsize,))[1:]
    return as_strided(x, size, steps)


def places(xp: Any, size: Shape, stride: Shape, delta: int) -> Any:
    """The position in memory of each element, int64 in the shape `size`."""
    found = xp.full(size, delta, "i8")
    for k, (n, s) in enumerate(zip(size, stride, strict=True)):
        found += (xp.arange(n) * s).reshape((n,) + (1,) * (len(size) - 1 - k))
    return found


@op(
    torch=None,
    view=True,
    linear=True,
    x=lambda xp, g, x_shape, x_stride, size, stride, delta: xp.unstrided(
        g, size=size, stride=stride, delta=delta, shape=x_shape, x_stride=x_stride
    ),
)
def strided(xp: Any, x: Any, *, size: Shape, stride: Shape, delta: int, x_stride: Shape) -> Any:
    """A view of sizes and strides over the memory of x, beginning delta elements after its first.

    x: any shape, of strides x_stride (in elements). Result: shape `size`, dtype of x.
    """
    if 0 in size:
        return x.reshape(-1)[:0].reshape(size)
    if tuple(s // x.itemsize for s in x.strides) != x_stride:  # the same values, laid out anew
        flat = xp.zeros(_span(x.shape, x_stride), x.dtype)
        view_of_memory(flat, x.shape, x_stride, 0)[...] = x
        return view_of_memory(flat, size, stride, delta)
    return view_of_memory(x, size, stride, delta)


def _span(size: Shape, stride: Shape) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, size, stride, delta, shape, x_stride: xp.restrided(
        g, size=size, stride=stride, delta=delta, shape=shape, x_stride=x_stride
    ),
)
def unstrided(
    xp: Any, x: Any, *, size: Shape, stride: Shape, delta: int, shape: Shape, x_stride: Shape
) -> Any:
    """x added up where `strided` reads it, of what lies in an array of `shape` and x_stride; an
    element that several places of that array show is shared evenly by them.

    x: shape `size`. Result: `shape`, dtype of x.
    """
    at, own = places(xp, tuple(size), stride, delta), places(xp, tuple(shape), x_stride, 0)
    if not at.size or not own.size:
        return xp.zeros(tuple(shape), x.dtype)
    low = min(delta, 0)
    total = xp.zeros(max(_span(size, stride) + delta, _span(shape, x_stride)) - low, x.dtype)
    shared = xp.zeros(total.shape, "i8")
    if x.dtype.kind == "c":
        xp.add.at(total.real, (at - low).ravel(), x.real.ravel())
        xp.add.at(total.imag, (at - low).ravel(), x.imag.ravel())
    else:
        xp.add.at(total, (at - low).ravel(), x.ravel())
    xp.add.at(shared, (own - low).ravel(), 1)
    return (total[own - low] / shared[own - low]).astype(x.dtype, copy=False)


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, size, stride, delta, shape, x_stride: xp.unstrided(
        g, size=size, stride=stride, delta=delta, shape=shape, x_stride=x_stride
    ),
)
def restrided(
    xp: Any, x: Any, *, size: Shape, stride: Shape, delta: int, shape: Shape, x_stride: Shape
) -> Any:
    """The transpose of unstrided: x laid out by `shape` and x_stride, read by `size` and stride.

    Result: `size`, dtype of x, a copy; 0 where x has nothing.
    """
    at, own = places(xp, tuple(size), stride, delta), places(xp, tuple(shape), x_stride, 0)
    if not at.size or not own.size:
        return xp.zeros(tuple(size), x.dtype)
    low = min(delta, 0)
    total = xp.zeros(max(_span(size, stride) + delta, _span(shape, x_stride)) - low, x.dtype)
    shared = xp.zeros(total.shape, "i8")
    xp.add.at(shared, (own - low).ravel(), 1)
    if x.dtype.kind == "c":
        xp.add.at(total.real, (own - low).ravel(), x.real.ravel())
        xp.add.at(total.imag, (own - low).ravel(), x.imag.ravel())
    else:
        xp.add.at(total, (own - low).ravel(), x.ravel())
    return (total / xp.maximum(shared, 1)).astype(x.dtype, copy=False)[at - low]
