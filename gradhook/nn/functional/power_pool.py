"""Pooling by the p-norm of windows, and by the maximum of windows that cover an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.functional import pooling
from gradhook.nn.functional.conv import per_axis
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def _lp_pool(
    n: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    """The p-norm of every window: the mean of powers, times the window's size, to the 1 / p."""
    if math.isinf(norm_type):
        pool = getattr(pooling, f"max_pool{n}d")
        sign = 1 if norm_type > 0 else -1
        found: Tensor = pool(sign * xp.absolute(input), kernel_size, stride, 0, 1, ceil_mode)
        return sign * found
    mean: Tensor = getattr(pooling, f"avg_pool{n}d")(
        input**norm_type, kernel_size, stride, 0, ceil_mode
    )
    total = xp.sign(mean) * xp.relu(xp.absolute(mean)) * math.prod(per_axis(kernel_size, n, "k"))
    result: Tensor = total ** (1.0 / norm_type)
    return result


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm, p being norm_type, of windows over the last axis. Source: torch.nn.functional.

    input: (batch, channels, length) or without batch, floating.
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm, p being norm_type, of windows over the last two axes.

    input: (batch, channels, h, w) or without batch, floating.
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm, p being norm_type, of windows over the last three axes.

    input: (batch, channels, d, h, w) or without batch, floating.
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _windows(size: int, out: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(out, widest): the places of windows floor(i * in / out) to ceil((i + 1) * in / out); the
    last one again where a window is narrower.
    """
    first = np.arange(out) * size // out
    after = -(-(np.arange(out) + 1) * size // out)
    width = int((after - first).max())
    places: np.ndarray[Any, np.dtype[np.int64]] = first[:, None] + np.arange(width)
    return places.clip(max=after[:, None] - 1)


def _adaptive_max_pool(n: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    sizes = pooling.adaptive_sizes(n, input, output_size, "max")
    spatial = [int(s) for s in input._a.shape[-n:]]
    if input._a.ndim not in (n + 1, n + 2) or 0 in input._a.shape[1:] or 0 in sizes:
        raise RuntimeError(
            f"adaptive_max_pool{n}d(): Expected {n + 1}D or {n + 2}D input with non-zero sizes, "
            f"found {list(input.shape)} and output_size={sizes}"
        )
    places = [_windows(size, out) for size, out in zip(spatial, sizes, strict=True)]
    module = ARRAY_MODULES[type(input._a)]
    x = input
    for axis, (size, where) in enumerate(zip(spatial, places, strict=True), input._a.ndim - n):
        if where.size != size:  # windows overlap: lay them side by side
            x = xp.index_select(x, make(module.asarray(where.ravel())), axis=axis)
    kernel = tuple(where.shape[1] for where in places)
    found = getattr(pooling, f"max_pool{n}d")(x, kernel, kernel, return_indices=True)
    if not return_indices:
        return found[0]
    flat, index = found[1]._a, 0
    coordinates = module.unravel_index(flat, tuple(x._a.shape[-n:]))
    for coordinate, where, size in zip(coordinates, places, spatial, strict=True):
        index = index * size + module.asarray(where.ravel())[coordinate]
    return found[0], make(index)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over the last axis in output_size windows that cover it, as adaptive_max_pool2d.

    input: (batch, channels, length) or without batch, floating.
    """
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over the last two axes in output_size windows that cover them; None keeps an axis.

    return_indices: also the flat index of each in the plane, int64. Errors: RuntimeError.
    """
    return _adaptive_max_pool(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over the last three axes, as adaptive_max_pool2d.

    input: (batch, channels, d, h, w) or without batch, floating.
    """
    return _adaptive_max_pool(3, input, output_size, return_indices)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of squares over `size` channels) ** beta.

    input: (batch, channels, ...), floating. Errors: ValueError for fewer than three dimensions.
    Source: torch.nn.functional.local_response_norm.
    """
    shape = tuple(input._a.shape)
    if len(shape) < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                          "
            f"input (got {len(shape)} dimensions)"
        )
    if input._a.size == 0:
        return input
    squares = xp.reshape(input * input, shape=(shape[0], 1, shape[1], math.prod(shape[2:])))
    padded = xp.pad_constant(squares, pad=(0, 0, size // 2, (size - 1) // 2))
    means = xp.reshape(pooling.avg_pool2d(padded, (size, 1), stride=1), shape=shape)
    result: Tensor = input / (means * alpha + k) ** beta
    return result
