"""Convolution over any number of spatial axes and its two transposes: three ops closed under
differentiation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from gradhook.ops.table import op

Array = Any
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where windows lie: a number a spatial axis; padding is (before, after)."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[Pair, ...]
    dilation: tuple[int, ...]
    spatial: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, ...]:
        """The spatial shape with padding."""
        return tuple(n + a + b for n, (a, b) in zip(self.spatial, self.padding, strict=True))

    @property
    def out(self) -> tuple[int, ...]:
        """The number of windows along each axis."""
        axes = zip(self.padded, self.kernel, self.stride, self.dilation, strict=True)
        return tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in axes)

    def offsets(self) -> list[tuple[int, ...]]:
        """Every kernel position, in row-major order."""
        return list(product(*(range(k) for k in self.kernel)))

    def window_slices(self, offset: tuple[int, ...]) -> tuple[slice, ...]:
        """The padded elements that kernel position `offset` meets, as strided slices."""
        axes = zip(offset, self.stride, self.dilation, self.out, strict=True)
        return tuple(slice(k * d, k * d + s * (n - 1) + 1, s) for k, s, d, n in axes)

    def inner_slices(self) -> tuple[slice, ...]:
        """The unpadded part of a padded array."""
        return tuple(slice(a, a + n) for n, (a, _) in zip(self.spatial, self.padding, strict=True))


def per_axis(value: Any, n: int) -> tuple[Any, ...]:
    """One value an axis: a number or a single entry is repeated n times."""
    if isinstance(value, (tuple, list)):
        return tuple(value) * n if len(value) == 1 and n > 1 else tuple(value)
    return (value,) * n


def geometry(
    kernel: Any, stride: Any, padding: Any, dilation: Any, spatial: tuple[int, ...]
) -> Geometry:
    """The Geometry of a call's attributes; each is a number, one entry, or an entry an axis
    (padding: also pairs).
    """
    n = len(spatial)
    pads = tuple(
        (p, p) if not isinstance(p, (tuple, list)) else (p[0], p[1]) for p in per_axis(padding, n)
    )
    return Geometry(per_axis(kernel, n), per_axis(stride, n), pads, per_axis(dilation, n), spatial)


def pad_spatial(xp: Any, x: Array, where: Geometry, value: Any = 0) -> Array:
    """x with its last axes padded by a constant; x itself where there is no padding."""
    if not any(a or b for a, b in where.padding):
        return x
    out = xp.full((*x.shape[: -len(where.spatial)], *where.padded), value, dtype=x.dtype)
    out[(..., *where.inner_slices())] = x
    return out


def _columns(xp: Any, x: Array, where: Geometry, groups: int) -> Array:
    """im2col: what each window sees of x, (batch, channels, *spatial).

    Result: (batch, groups, channels/groups * kernel, windows).
    """
    x = pad_spatial(xp, x, where)
    batch, channels = x.shape[:2]
    steps = x.strides[2:]
    windows = xp.lib.stride_tricks.as_strided(
        x,
        shape=(batch, channels, *where.kernel, *where.out),
        strides=(
            *x.strides[:2],
            *(s * d for s, d in zip(steps, where.dilation, strict=True)),
            *(s * d for s, d in zip(steps, where.stride, strict=True)),
        ),
    )
    rows = channels // groups * prod(where.kernel)
    return windows.reshape((batch, groups, rows, prod(where.out)))


def _grouped(x: Array, groups: int) -> Array:
    """(batch, channels, *windows) as (batch, groups, channels/groups, windows)."""
    return x.reshape((x.shape[0], groups, x.shape[1] // groups, prod(x.shape[2:])))


def _filters(weight: Array, groups: int) -> Array:
    """(out, in/groups, *kernel) as (groups, out/groups, in/groups * kernel)."""
    return weight.reshape((groups, weight.shape[0] // groups, prod(weight.shape[1:])))


def _merged(xp: Any, x: Array) -> Array:
    """(batch, groups, rows, windows) as (groups, rows, batch * windows)."""
    batch, groups, rows, count = x.shape
    return xp.moveaxis(x, 0, 2).reshape((groups, rows, batch * count))


@op(
    method=False,
    promote="same",
    x=lambda xp, g, weight, x_shape, stride, padding, dilation, groups: xp.convolution_input(
        g, weight, shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    weight=lambda xp, g, x, weight_shape, stride, padding, dilation, groups: xp.convolution_weight(
        g, x, shape=weight_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    bias=lambda xp, g, weight_shape: xp.sum(g, axis=(0, -1, -2, -3)[: len(weight_shape) - 1]),
)
def convolution(
    xp: Any,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation of x with weight, over as many spatial axes as weight has beyond two.

    x: (batch, in, *spatial), weight: (out, in/groups, *kernel), bias: (out,) or None; one dtype.
    stride, padding, dilation: a number or one an axis; a padding entry may be (before, after).
    Result: (batch, out, *windows).
    """
    where = geometry(weight.shape[2:], stride, padding, dilation, x.shape[2:])
    out = xp.matmul(_filters(weight, groups), _columns(xp, x, where, groups))
    out = out.reshape((x.shape[0], weight.shape[0], *where.out))
    if bias is not None:
        out += bias.reshape((-1, *(1,) * (x.ndim - 2)))
    return out


@op(
    method=False,
    grad=lambda xp, g, weight, stride, padding, dilation, groups: xp.convolution(
        g, weight, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    weight=lambda xp, g, grad, weight_shape, stride, padding, dilation, groups: (
        xp.convolution_weight(
            grad,
            g,
            shape=weight_shape,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        )
    ),
)
def convolution_input(
    xp: Any,
    grad: Array,
    weight: Array,
    *,
    shape: tuple[int, ...],
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """The gradient of `convolution` for its input, also the transposed convolution.

    grad: (batch, out, *windows), weight: (out, in/groups, *kernel). Result: exactly `shape` (batch,
    in, *spatial).
    """
    where = geometry(weight.shape[2:], stride, padding, dilation, tuple(shape[2:]))
    columns = xp.matmul(_filters(weight, groups).swapaxes(1, 2), _grouped(grad, groups))
    columns = columns.reshape((*shape[:2], *where.kernel, *where.out))
    image = xp.zeros((*shape[:2], *where.padded), dtype=columns.dtype)
    every = (slice(None), slice(None))
    for offset in where.offsets():
        image[(..., *where.window_slices(offset))] += columns[(*every, *offset)]
    return xp.ascontiguousarray(image[(..., *where.inner_slices())])


@op(
    method=False,
    grad=lambda xp, g, x, stride, padding, dilation, groups: xp.convolution(
        x, g, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    x=lambda xp, g, grad, x_shape, stride, padding, dilation, groups: xp.convolution_input(
        grad, g, shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
def convolution_weight(
    xp: Any,
    grad: Array,
    x: Array,
    *,
    shape: tuple[int, ...],
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """The gradient of `convolution` for its weight.

    grad: (batch, out, *windows), x: (batch, in, *spatial). Result: exactly `shape` (out, in/groups,
    *kernel).
    """
    where = geometry(tuple(shape[2:]), stride, padding, dilation, x.shape[2:])
    columns, grouped = _columns(xp, x, where, groups), _grouped(grad, groups)
    if grouped.shape[2] <= 2 * grouped.shape[3]:  # a product a sample takes no more than columns
        return xp.matmul(grouped, columns.swapaxes(2, 3)).sum(axis=0).reshape(shape)
    return xp.matmul(_merged(xp, grouped), _merged(xp, columns).swapaxes(1, 2)).reshape(shape)
