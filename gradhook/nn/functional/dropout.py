"""Dropout: elements or whole channels set to zero, drawn from the default generator."""

from __future__ import annotations

from gradhook.autograd.binding import make
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
        return input if inplace or not training else xp.multiply(input, 1.0)
    a = input._a
    if p == 1.0:
        result = xp.multiply(input, 0.0)
    else:
        result = xp.multiply(input, make(default_generator.dropout(shape, a.dtype, p, like=a)))
    return input.copy_(result) if inplace else result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Every element is 0 with probability p, else divided by 1 - p; input itself when not training.

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

    input: (batch, channels, length) or without batch.
    """
    return _channels(input, p, training, inplace, input._a.ndim - 1)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels are 0 with probability p. input: (batch, channels, h, w)."""
    return _channels(input, p, training, inplace, 2)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels are 0 with probability p.

    input: (batch, channels, d, h, w) or without batch.
    """
    return _channels(input, p, training, inplace, input._a.ndim - 3)
