"""Pooling over one, two or three axes: arguments checked, then the table's windows."""

from __future__ import annotations

from typing import Any

from gradhook.nn.functional.conv import per_axis
from gradhook.nn.functional.dtype_checks import floating
from gradhook.nn.recorded import ops as xp
from gradhook.ops.nn_pool import pool_geometry
from gradhook.tensor import Tensor


def _windows(
    n: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """kernel, stride, padding, dilation, one a spatial axis, checked.

    An empty or absent stride is the kernel.
    """
    kernel = per_axis(kernel_size, n, "kernel_size")
    stride = (
        kernel if stride is None or stride == () or stride == [] else per_axis(stride, n, "stride")
    )
    pads, spread = per_axis(padding, n, "padding"), per_axis(dilation, n, "dilation")
    for what, values in (("kernel_size", kernel), ("stride", stride), ("dilation", spread)):
        if min(values) <= 0:
            raise RuntimeError(f"pooling {what} must be greater than zero, but got {min(values)}")
    for p, k, d in zip(pads, kernel, spread, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
    shape = input._a.shape
    if len(shape) not in (n + 1, n + 2) or 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape)}"
        )
    where = pool_geometry(kernel, stride, pads, spread, ceil_mode, shape[-n:])
    if min(where.out) < 1:
        before = "x".join(map(str, shape[-n - 1 :]))
        after = "x".join(map(str, (shape[-n - 1], *where.out)))
        raise RuntimeError(
            f"Given input size: ({before}). Calculated output size: ({after}). Output size is too "
            "small"
        )
    return kernel, stride, pads, spread


def _max_pool(
    n: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    kernel, stride, pads, spread = _windows(
        n, input, kernel_size, stride, padding, dilation, ceil_mode
    )
    values, indices = xp.max_pool(
        input,
        rank=n,
        kernel=kernel,
        stride=stride,
        padding=pads,
        dilation=spread,
        ceil_mode=ceil_mode,
    )
    return (values, indices) if return_indices else values


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of windows over the last axis, as max_pool2d.

    input: (batch, channels, length) or without batch, real.
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of windows over the last two axes.

    input: (batch, channels, h, w) or without batch.

    return_indices: also its flat index in the plane, int64. Errors: RuntimeError with PyTorch's
    texts.
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of windows over the last three axes, as max_pool2d.

    input: (batch, channels, d, h, w) or without batch, real.
    """
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _avg_pool(
    n: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    kernel, stride, pads, _ = _windows(n, input, kernel_size, stride, padding, 1, ceil_mode)
    return xp.avg_pool(
        input,
        rank=n,
        kernel=kernel,
        stride=stride,
        padding=pads,
        ceil_mode=ceil_mode,
        include_pad=count_include_pad,
        divisor=divisor_override,
    )


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of windows over the last axis, as avg_pool2d.

    input: (batch, channels, length) or without batch, real.
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of windows over the last two axes.

    input: (batch, channels, h, w) or without batch, floating.

    count_include_pad: padding counts as zeros; divisor_override: divide by this instead.
    Errors: RuntimeError.
    """
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of windows over the last three axes, as avg_pool2d.

    input: (batch, channels, d, h, w) or without batch, real.
    """
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def adaptive_sizes(n: int, input: Tensor, output_size: Any, kind: str) -> tuple[int, ...]:
    """The output size, a number an axis. kind: "avg" or "max". Errors: ValueError, RuntimeError."""
    if input._a.ndim < n + 1:
        raise ValueError(f"Input dimension should be at least {n + 1}, found {input._a.ndim}")
    sizes = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * n
    spatial = input._a.shape[-n:]
    if len(sizes) != n:
        raise RuntimeError(
            f"adaptive_{kind}_pool{n}d: output_size must be {n} numbers, found {len(sizes)}"
        )
    if any(size is not None and size < 0 for size in sizes):
        raise RuntimeError(
            f"adaptive_{kind}_pool{n}d: elements of output_size must be greater than or equal to 0 "
            f"but received {sizes}"
        )
    return tuple(
        int(s) if size is None else int(size) for s, size in zip(spatial, sizes, strict=True)
    )


def _adaptive_avg_pool(n: int, input: Tensor, output_size: Any) -> Tensor:
    """The mean of windows floor(i * in / out) to ceil((i + 1) * in / out), one axis after the
    other.
    """
    sizes = adaptive_sizes(n, input, output_size, "avg")
    if sizes == (1,) * n and input._a.dtype.kind in "biuc":  # a mean, which says what it takes
        return xp.mean(input, axis=tuple(range(-n, 0)), keepdims=True)
    floating(f"adaptive_avg_pool{n}d", input)
    spatial = input._a.shape[-n:]
    if all(out and size % out == 0 for size, out in zip(spatial, sizes, strict=True)):
        kernel = tuple(size // out for size, out in zip(spatial, sizes, strict=True))
        return _avg_pool(n, input, kernel, kernel, 0, False, True, None)
    result = input
    for axis, (size, out) in enumerate(zip(spatial, sizes, strict=True), input._a.ndim - n):
        parts = [
            xp.mean(
                xp.slice_view(
                    result,
                    index=(slice(None),) * axis
                    + (slice(i * size // out, -(-(i + 1) * size // out)),),
                ),
                axis=axis,
                keepdims=True,
            )
            for i in range(out)
        ]
        result = xp.concat(*parts, axis=axis)
    return result


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over the last axis in output_size windows that cover it.

    input: (batch, channels, length) or without batch, floating.
    """
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over the last two axes in output_size windows that cover them; None keeps an axis.

    input: (batch, channels, h, w) or without batch, floating.
    """
    return _adaptive_avg_pool(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over the last three axes in output_size windows that cover them; None keeps an axis.

    input: (batch, channels, d, h, w) or without batch, floating.
    """
    return _adaptive_avg_pool(3, input, output_size)
