"""Sliding blocks of a plane as columns, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradhook.nn.functional.padding import pad
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor

Pair = tuple[int, int]


def _pair(name: str, value: Any) -> Pair:
    found = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(found) == 1:
        found *= 2
    if len(found) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(found)}")
    return found


class Blocks:
    """The sliding blocks of a plane: kernel, dilation, padding and stride, (height, width) each.

    Errors: RuntimeError for numbers that are too small.
    """

    def __init__(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
        self.kernel = _pair("kernel_size", kernel_size)
        self.dilation = _pair("dilation", dilation)
        self.padding = _pair("padding", padding)
        self.stride = _pair("stride", stride)
        for name, short, values, low in (
            ("kernel size", "kernel", self.kernel, 1),
            ("stride", "stride", self.stride, 1),
            ("dilation", "dilation", self.dilation, 1),
            ("padding", "pad", self.padding, 0),
        ):
            if min(values) < low:
                limit = "greater than zero" if low else "non-negative"
                raise RuntimeError(
                    f"{name} should be {limit}, but got {short}_height: {values[0]} {short}_width: "
                    f"{values[1]}"
                )
        self.span = tuple((k - 1) * d + 1 for k, d in self._zip(self.kernel, self.dilation))

    @staticmethod
    def _zip(*values: Any) -> Any:
        return zip(*values, strict=True)

    def padded(self, plane: Pair) -> Pair:
        """The size of a plane with its padding."""
        height, width = (n + 2 * p for n, p in self._zip(plane, self.padding))
        return height, width

    def counts(self, plane: Pair) -> Pair:
        """How many blocks there are over height and width; below 1 where there are none."""
        rows, columns = (
            (n - span) // s + 1
            for n, span, s in self._zip(self.padded(plane), self.span, self.stride)
        )
        return rows, columns

    def spread(self) -> tuple[Any, ...]:
        """What picks the kernel's elements from the last two axes, of size span."""
        return (Ellipsis, *(slice(None, None, d) for d in self.dilation))

    def __str__(self) -> str:
        return f"kernel_size={self.kernel}, dilation={self.dilation}, padding={self.padding}"


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Every sliding block as a column. input: (batch, channels, h, w) or without batch.

    Result: (batch, channels * kernel elements, blocks). Errors: RuntimeError for sizes that do not
    fit. Floating or complex. Source: torch.nn.functional.unfold.
    """
    blocks = Blocks(kernel_size, dilation, padding, stride)
    if input._a.ndim not in (3, 4) or 0 in input._a.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    *lead, channels, height, width = (int(n) for n in input._a.shape)
    rows, columns = blocks.counts((height, width))
    if min(rows, columns) < 1:
        raise RuntimeError(
            f"Given input with spatial size ({height}, {width}), {blocks}, calculated shape of the "
            f"array of sliding blocks as ({rows}, {columns}), but its components must be at least "
            "one."
        )
    top, left = blocks.padding
    x = pad(input, (left, left, top, top)) if top or left else input
    n = len(lead) + 1
    for axis, span, step in zip((n, n + 1), blocks.span, blocks.stride, strict=True):
        x = xp.windows(x, size=span, step=step, axis=axis)
    x = xp.slice_view(x, index=blocks.spread())
    x = xp.permute_dims(x, dims=(*range(n), n + 2, n + 3, n, n + 1))
    k = blocks.kernel
    return xp.reshape(x, shape=(*lead, channels * k[0] * k[1], rows * columns))


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """The sum of sliding blocks laid back where unfold took them.

    input: (batch, channels * kernel elements, blocks) or without batch. Result: (batch, channels,
    *output_size). Errors: RuntimeError for sizes that do not fit. Floating or complex.
    Source: torch.nn.functional.fold.
    """
    plane = _pair("output_size", output_size)
    blocks = Blocks(kernel_size, dilation, padding, stride)
    rows, columns = _check_columns(input, plane, blocks)
    *lead, features, _ = (int(n) for n in input._a.shape)
    k, n = blocks.kernel, len(lead) + 1
    channels = features // (k[0] * k[1])
    x = xp.reshape(input, shape=(*lead, channels, *k, rows, columns))
    x = xp.permute_dims(x, dims=(*range(n), n + 2, n + 3, n, n + 1))
    x = xp.unslice(x, index=blocks.spread(), shape=(*lead, channels, rows, columns, *blocks.span))
    height, width = blocks.padded(plane)
    for axis, shape in (
        (1, (*lead, channels, rows, width, blocks.span[0])),
        (0, (*lead, channels, height, width)),
    ):
        size, step = blocks.span[axis], blocks.stride[axis]
        x = xp.fold_windows(x, shape=shape, size=size, step=step, axis=n + axis)
    top, left = blocks.padding
    if not (top or left):
        return x
    return pad(x, (-left, -left, -top, -top))


def _check_columns(input: Tensor, plane: Pair, blocks: Blocks) -> Pair:
    """The number of blocks over height and width."""
    shape = tuple(input._a.shape)
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    k, axis = blocks.kernel, len(shape) - 2
    if shape[axis] % (k[0] * k[1]):
        raise RuntimeError(
            f"Expected size of input's dimension {axis} to be divisible by the product of "
            f"kernel_size, but got input.size({axis})={shape[axis]} and kernel_size={k}."
        )
    rows, columns = (max(n, 0) for n in blocks.counts(plane))
    if rows * columns != shape[-1]:
        raise RuntimeError(
            f"Given output_size={plane}, {blocks}, stride={blocks.stride}, expected size of "
            f"input's dimension {axis + 1} to match the calculated number of sliding blocks {rows} "
            f"* {columns} = {rows * columns}, but got input.size({axis + 1})={shape[-1]}."
        )
    if rows * columns == 0:
        raise RuntimeError(
            f"Given output_size={plane}, {blocks}, stride={blocks.stride}, there is no sliding "
            "block"
        )
    return rows, columns
