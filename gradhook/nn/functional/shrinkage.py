"""Activations that cut small values or replace those below a threshold."""

from __future__ import annotations

from gradhook import dtypes
from gradhook.nn.functional.activation import maybe_in_place
from gradhook.nn.functional.dtype_checks import floating
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 where abs(x) <= lambd, x elsewhere. input: any shape, floating."""
    floating("hardshrink", input)
    return xp.masked_fill(input, xp.logical_and(input >= -lambd, input <= lambd), value=0)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 where abs(x) <= lambd. input: any shape, floating.

    Errors: RuntimeError for a negative lambd.
    """
    floating("softshrink", input)
    if lambd < 0:
        most = dtypes.finfo(input.dtype).max
        raise RuntimeError(
            f"lambda must be in range [0, {most:g}] for input dtype {input.dtype.title}, but found "
            f"{lambd:g}."
        )
    return input - xp.clamp(input, low=-lambd, high=lambd)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x). input: any shape, floating."""
    return input - xp.tanh(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, value elsewhere. input: any shape, real."""
    return maybe_in_place(lambda x: xp.masked_fill(x, x <= threshold, value=value), input, inplace)
