"""Dropout: elements or whole channels set to zero, drawn from the default generator."""

from __future__ import annotations

import math

from gradhook.autograd.binding import make
from gradhook.nn.functional.dtype_checks import floating
from gradhook.nn.recorded import ops as xp
from gradhook.random import default_generator
from gradhook.tensor import Tensor


def _dropped(
    input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]
) -> Tensor:
    """input times a mask of `shape` that is 0 with probability p and 1 / (1 - p) elsewhere."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0 or input._a.size == 0:
        return input
    a = input._a
    if p == 1.0:
        result = xp.multiply(input, 0.0)
    else:
        result = xp.multiply(input, make(default_generator.dropout(shape, a.dtype, p, like=a)))
    return input.copy_(result) if inplace else result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Every element is 0 with probability p, else divided by 1 - p; input itself when p is 0 or
    not training.

    input: any shape, floating. Errors: ValueError for p outside [0, 1]. Source: arXiv:1207.0580.
    """
    return _dropped(input, p, training, inplace, tuple(input._a.shape))


def _channels(input: Tensor, p: float, training: bool, inplace: bool, lead: int) -> Tensor:
    if p == 0.0:
        return input
    shape = input._a.shape
    return _dropped(input, p, training, inplace, (*shape[:lead], *(1,) * (len(shape) - lead)))


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels are 0 with probability p.

    input: (batch, channels, length) or without batch. Floating or complex.
    """
    return _channels(input, p, training, inplace, input._a.ndim - 1)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels are 0 with probability p. input: (batch, channels, h, w).

    Floating or complex.
    """
    return _channels(input, p, training, inplace, 2)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels are 0 with probability p.

    input: (batch, channels, d, h, w) or without batch. Floating or complex.
    """
    return _channels(input, p, training, inplace, input._a.ndim - 3)


def _alpha_dropped(
    input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]
) -> Tensor:
    """input with what is dropped at SELU's lowest value, then scaled to mean 0 and variance 1."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0 or input._a.size == 0:
        return input
    if p == 1.0:
        result = xp.multiply(input, 0.0)
    else:
        floating("alpha_dropout", input)
        a = input._a
        lowest = 1.7580993408473766  # minus the limit of selu(x) for x to -inf
        scale = 1 / math.sqrt((lowest * lowest * p + 1) * (1 - p))
        kept = default_generator.dropout(shape, a.dtype, p, like=a) * a.dtype.type(1 - p)
        shift = (kept - 1) * a.dtype.type(lowest * scale) + a.dtype.type(lowest * scale * p)
        result = input * make(kept * a.dtype.type(scale)) + make(shift)
    return input.copy_(result) if inplace else result


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for networks of SELU, which keeps mean and variance. input: any shape, floating.

    Errors: ValueError for p outside [0, 1]. Source: arXiv:1706.02515.
    """
    return _alpha_dropped(input, p, training, inplace, tuple(input._a.shape))


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels. input: (batch, channels, ...), floating.

    Errors: ValueError for p outside [0, 1], RuntimeError for fewer than two dimensions.
    """
    shape = input._a.shape
    if len(shape) < 2 and training and p != 0.0:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _alpha_dropped(input, p, training, inplace, (*shape[:2], *(1,) * (len(shape) - 2)))
