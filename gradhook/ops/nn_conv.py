"""Convolution over any number of spatial axes and its two transposes: three ops closed under
differentiation.
"""

from __future__ import annotations

from math import prod
from typing import Any

from gradhook.kernels import host_convolution
from gradhook.ops import nn_conv_parts as parts
from gradhook.ops.table import op
from gradhook.ops.windows import Geometry, geometry, pad_spatial, windows

Array = Any


def _columns(xp: Any, x: Array, where: Geometry, groups: int) -> Array:
    """im2col: what each window sees of x, (batch, channels, *spatial).

    Result: (batch, groups, channels/groups * kernel, windows).
    """
    x = pad_spatial(xp, x, where)
    batch, channels = x.shape[:2]
    rows = channels // groups * prod(where.kernel)
    return windows(xp, x, where).reshape((batch, groups, rows, prod(where.out)))


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
    found = host_convolution.convolution(x, weight, bias, where, groups)
    if found is not NotImplemented:
        return found
    if groups == 1 and parts.takes(x, weight, bias):
        return parts.convolution(x, weight, bias, where)
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
    found = host_convolution.convolution_input(grad, weight, where, groups)
    if found is not NotImplemented:
        return found
    if groups == 1 and parts.takes(grad, weight):
        return parts.convolution_input(grad, weight, where)
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
    found = host_convolution.convolution_weight(grad, x, where, groups)
    if found is not NotImplemented:
        return found
    if groups == 1 and shape[0] <= 2 * prod(where.out) and parts.takes(grad, x):
        return parts.convolution_weight(grad, x, where)
    columns, grouped = _columns(xp, x, where, groups), _grouped(grad, groups)
    if grouped.shape[2] <= 2 * grouped.shape[3]:  # a product a sample takes no more than columns
        return xp.matmul(grouped, columns.swapaxes(2, 3)).sum(axis=0).reshape(shape)
    return xp.matmul(_merged(xp, grouped), _merged(xp, columns).swapaxes(1, 2)).reshape(shape)
