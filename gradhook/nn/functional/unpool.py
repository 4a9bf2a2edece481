"""Maxima of a pooling laid back where they were."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradhook import creation
from gradhook.nn.functional.conv import per_axis
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def _output_size(
    n: int, input: Tensor, kernel: Any, stride: Any, padding: Any, output_size: Any
) -> tuple[int, ...]:
    """The plane that was pooled. Errors: ValueError for one that pools to another size."""
    steps = kernel if stride is None else per_axis(stride, n, "stride")
    pads = per_axis(padding, n, "padding")
    spatial = input._a.shape[-n:]
    default = tuple(
        int((s - 1) * step + k - 2 * p)
        for s, step, k, p in zip(spatial, steps, kernel, pads, strict=True)
    )
    if output_size is None:
        return default
    sizes = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,)
    sizes = sizes[2:] if len(sizes) == n + 2 else sizes
    if len(sizes) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a "
            f"length of '{len(sizes)}'"
        )
    for d, (size, middle, step) in enumerate(zip(sizes, default, steps, strict=True)):
        if not middle - step < size < middle + step:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {middle - step} and '
                f"{middle + step})"
            )
    return tuple(int(size) for size in sizes)


def _max_unpool(
    n: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Tensor:
    if input._a.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Input to max_unpooling{n}d should be a {n + 1}d or {n + 2}d Tensor, but got a tensor "
            f"with {input._a.ndim} dimensions."
        )
    kernel = per_axis(kernel_size, n, "kernel_size")
    sizes = _output_size(n, input, kernel, stride, padding, output_size)
    a = indices._a
    if a.dtype != np.int64:
        raise RuntimeError(
            f"elements in indices should be type int64 but got: {indices.dtype.title}"
        )
    if a.shape != input._a.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    if type(a) is np.ndarray and a.size and (a.min() < 0 or a.max() >= math.prod(sizes)):
        wrong = a[(a < 0) | (a >= math.prod(sizes))].flat[0]
        raise RuntimeError(
            f"Found an invalid max index: {wrong} (output volumes are of size "
            f"{'x'.join(map(str, sizes))})"
        )
    lead = tuple(input._a.shape[:-n])
    places, values = (xp.reshape(t, shape=(*lead, -1)) for t in (indices, input))
    shape = (*lead, math.prod(sizes))
    plane = creation.zeros(shape, dtype=input.dtype, device=input.device)
    return xp.reshape(plane.scatter(-1, places, values), shape=(*lead, *sizes))


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The inverse of max_pool1d up to what it dropped, as max_unpool2d.

    input, indices: (batch, channels, length) or without batch, floating and int64.
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros with input at indices, those of max_pool2d with return_indices.

    input, indices: (batch, channels, h, w) or without batch, indices int64; output_size: the plane
    that was pooled, where several fit. Errors: RuntimeError, ValueError.
    Source: torch.nn.functional.max_unpool2d.
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The inverse of max_pool3d up to what it dropped, as max_unpool2d.

    input, indices: (batch, channels, d, h, w) or without batch, floating and int64.
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
