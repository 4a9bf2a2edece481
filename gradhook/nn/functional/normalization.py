"""Normalisation over the batch, over groups of channels, over the last axes, and of vectors to
length one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradhook import backend, dtypes
from gradhook.nn.functional.dtype_checks import floating, inexact
from gradhook.nn.recorded import ops as xp
from gradhook.storage import bump
from gradhook.tensor import Tensor


def _trailing(input: Tensor, normalized_shape: Any, name: str) -> tuple[int, ...]:
    """The last axes, which must have normalized_shape.

    Errors: RuntimeError with PyTorch's texts.
    """
    shape = (
        tuple(normalized_shape) if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    )
    n = len(shape)
    if n < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
            f"one element, but got normalized_shape = {list(shape)}"
        )
    if input._a.shape[-n:] != shape or input._a.ndim < n:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(map(str, shape))}], but got input of size{list(input._a.shape)}"
        )
    return tuple(range(-n, 0))


def _check_affine(name: str, value: Tensor | None, normalized_shape: Any) -> None:
    shape = (
        tuple(normalized_shape) if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    )
    if value is not None and value._a.shape != shape:
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{list(value._a.shape)} and normalized_shape = {list(shape)}"
        )


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes.

    weight, bias: normalized_shape. input: (..., *normalized_shape), floating. Result: as input.

    Errors: RuntimeError when the last axes are not normalized_shape.
    """
    axis = _trailing(input, normalized_shape, "layer_norm")
    _check_affine("weight", weight, normalized_shape)
    _check_affine("bias", bias, normalized_shape)
    return xp.layer_norm(input, weight, bias, axis=axis, eps=eps)


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x * x) + eps) * weight over the last axes.

    eps: None means the dtype's epsilon.
    input: (..., *normalized_shape), floating or complex. Result: as input.
    """
    axis = _trailing(input, normalized_shape, "rms_norm")
    _check_affine("weight", weight, normalized_shape)
    inexact("rms_norm", input)
    epsilon = dtypes.finfo(input.dtype).eps if eps is None else eps
    return xp.rms_norm(input, weight, axis=axis, eps=epsilon)


def _per_channel(value: Tensor, ndim: int) -> Tensor:
    """A value a channel, (channels,), as it broadcasts to (batch, channels, ...)."""
    return value if ndim <= 2 else xp.reshape(value, shape=(-1, *(1,) * (ndim - 2)))


def _optional(value: Tensor | None, ndim: int) -> Tensor | None:
    return None if value is None else _per_channel(value, ndim)


def _update_running(
    input: Tensor, axes: tuple[int, ...], mean: Tensor | None, var: Tensor | None, momentum: float
) -> None:
    """Move the running statistics towards this batch's, in place; var is unbiased."""
    given = [t for t in (mean, var) if t is not None]
    if not given:
        return
    first, second = given[0], given[-1]
    moved = xp.running_moments(input, first, second, axis=axes, momentum=momentum)
    for statistic, new in zip((mean, var), moved, strict=True):
        if statistic is not None:
            statistic._a[...] = new._a
            bump(statistic)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every channel, input: (batch, channels, ...), by this batch's statistics or the
    running ones.

    training: use the batch's and move the running ones by momentum. weight, bias and statistics:
    (channels,). Errors: ValueError for one value a channel or eps <= 0 in training; RuntimeError
    without statistics in evaluation. Floating.
    """
    floating("batch_norm", input)
    a = input._a
    ndim = a.ndim
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when training=False"
            )
        scale = xp.rsqrt(_per_channel(running_var, ndim) + eps)
        out = (input - _per_channel(running_mean, ndim)) * scale
        out = out if weight is None else out * _per_channel(weight, ndim)
        return out if bias is None else out + _per_channel(bias, ndim)
    axes = (0, *range(2, ndim))
    if a.size and a.size // a.shape[1] == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    if eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if a.size:
        _update_running(input, axes, running_mean, running_var, momentum)
    return xp.batch_norm(input, _optional(weight, ndim), _optional(bias, ndim), axis=axes, eps=eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise num_groups groups of channels of every sample. input: (batch, channels, ...).

    Floating; weight, bias: (channels,). Errors: RuntimeError unless num_groups divides the
    channels, and for a weight or bias of another shape.
    """
    shape = tuple(input._a.shape)
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={num_groups}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p._a.shape != shape[1:2]:
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(p._a.shape)} and input of shape {list(shape)}"
            )
    apart = (num_groups, shape[1] // num_groups)
    grouped = xp.reshape(input, shape=(shape[0], *apart, prod(shape[2:])))
    scale, shift = (None if p is None else xp.reshape(p, shape=(*apart, 1)) for p in (weight, bias))
    return xp.reshape(xp.layer_norm(grouped, scale, shift, axis=(-2, -1), eps=eps), shape=shape)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every channel of every sample by its own statistics.

    input: (batch, channels, ...). Floating.
    Errors: ValueError for one element a channel in training.
    """
    floating("instance_norm", input)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    shape = input._a.shape
    if input._a.size == shape[0] * shape[1]:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    axes = tuple(range(2, len(shape)))
    if running_mean is not None or running_var is not None:
        a, n = input._a, input._a[0, 0].size
        for running, batch in (
            (running_mean, a.mean(axis=axes)),
            (running_var, a.var(axis=axes) * (n / max(n - 1, 1))),
        ):
            if running is not None:
                running._a *= 1 - momentum
                running._a += batch.mean(axis=0) * momentum
                bump(running)
    return xp.batch_norm(
        input, _optional(weight, len(shape)), _optional(bias, len(shape)), axis=axes, eps=eps
    )


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """input / max(norm, eps), norm being the p-norm over dim.

    out: where to put the result, without gradient. Floating or complex.
    """
    inexact("normalize", input)
    norm = xp.vector_norm(input, ord=p, axis=dim, keepdims=True)
    result: Tensor = input / xp.maximum(norm, eps)
    if out is None:
        return result
    backend.expect_device(out._a, input.device, "out")
    return out.copy_(result)
