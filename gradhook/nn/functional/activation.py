"""Activations in PyTorch's signatures: `inplace`, `dim` and `dtype` on top of the table's
functions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from gradhook import dtypes
from gradhook.autograd.binding import make
from gradhook.hooks.notices import caller_depth
from gradhook.nn.functional.dtype_checks import floating, inexact
from gradhook.nn.recorded import ops as xp
from gradhook.ops.axes import wrap
from gradhook.random import default_generator
from gradhook.tensor import Tensor


def maybe_in_place(
    f: Callable[..., Tensor], input: Tensor, inplace: bool, **attributes: Any
) -> Tensor:
    """f(input), written into input itself when asked; its history then goes through a copy of the
    old values.
    """
    if not inplace:
        return f(input, **attributes)
    return input.copy_(f(xp.clone(input), **attributes))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0). input: any shape, real."""
    return input.relu_() if inplace else xp.relu(input)


def relu_(input: Tensor) -> Tensor:
    """relu in place. input: any shape, real. Result: as input."""
    return input.relu_()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6). input: any shape, real. Result: as input."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x cut to [min_val, max_val]. Errors: ValueError unless min_val <= max_val.

    input: any shape, real. Result: as input.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return maybe_in_place(xp.hardtanh, input, inplace, low=min_val, high=max_val)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x). input: any shape, floating or complex. Result: as input."""
    return maybe_in_place(xp.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)). input: any shape, floating. Result: as input."""
    return maybe_in_place(lambda x: x * xp.tanh(xp.softplus(x)), input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, negative_slope * x elsewhere. input: any shape, floating. Result: as input."""
    return maybe_in_place(xp.leaky_relu, input, inplace, negative_slope=negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, alpha * (exp(x) - 1) elsewhere.

    input: any shape, floating. Result: as input.
    """
    return maybe_in_place(xp.elu, input, inplace, alpha=alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, alpha * (exp(x / alpha) - 1) elsewhere. Errors: RuntimeError for alpha 0.

    input: any shape, floating. Result: as input.

    Source: arXiv:1704.07483.
    """
    inexact("celu", input)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return maybe_in_place(
        lambda x: xp.where(x > 0, x, xp.elu(x * (1 / alpha)) * alpha), input, inplace
    )


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(x, alpha), with the numbers that keep mean 0 and variance 1.

    input: any shape, floating. Result: as input.

    Source: arXiv:1706.02515.
    """
    return maybe_in_place(
        lambda x: xp.elu(x, alpha=1.6732632423543772) * 1.0507009873554805, input, inplace
    )


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6. input: any shape, floating."""
    floating("hardsigmoid", input)
    return maybe_in_place(_hardsigmoid, input, inplace)


def _hardsigmoid(x: Tensor) -> Tensor:
    return xp.hardtanh(x + 3, low=0.0, high=6.0) / 6


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x). input: any shape, floating. Source: arXiv:1905.02244."""
    floating("hardswish", input)
    return maybe_in_place(lambda x: x * _hardsigmoid(x), input, inplace)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """x where x > 0, slope * x elsewhere; the slope is drawn from [lower, upper) for every element
    in training, and their middle otherwise. input: any shape, floating. Result: as input.

    Errors: RuntimeError unless lower <= upper. Source: arXiv:1505.00853.
    """
    floating("rrelu", input)
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    a = input._a
    drawn = default_generator.random(a.shape, a.dtype, like=a)
    slope = make(drawn * a.dtype.type(upper - lower) + a.dtype.type(lower))
    return maybe_in_place(lambda x: xp.where(x > 0, x, x * slope), input, inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), a and b being the halves of input along dim.

    Floating or complex.

    Errors: RuntimeError for an odd size or no dimension. Source: arXiv:1612.08083.
    """
    inexact("glu", input)
    if input._a.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    axis = wrap(dim, input._a.ndim)
    size = input._a.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    a, b = xp.split(input, sizes=(size // 2, size // 2), axis=axis)
    return a * xp.sigmoid(b)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, x itself where beta * x > threshold.

    input: any shape, floating. Result: as input.
    """
    return xp.softplus(input, beta=beta, threshold=threshold)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), stable for every x. input: any shape, floating. Result: as input."""
    return -xp.softplus(-input, threshold=math.inf)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + abs(x)). input: any shape, floating or complex. Result: as input."""
    return input / (1 + xp.absolute(input))


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent. input: any shape, floating or complex. Result: as input."""
    return xp.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)). input: any shape, floating or complex. Result: as input."""
    return xp.sigmoid(input)


def _softmax_dim(name: str, ndim: int, dim: int | None) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=caller_depth(),
    )
    return 0 if ndim in (0, 1, 3) else 1


def _cast(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else xp.cast(input, dtype=dtypes.of(dtype).np)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(x) over its sum along dim. dtype: cast to it first."""
    dim = _softmax_dim("softmax", input._a.ndim, dim)
    return xp.softmax(_cast(input, dtype), axis=dim)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax(-x). input: any shape, floating. Result: as input."""
    dim = _softmax_dim("softmin", input._a.ndim, dim)
    return xp.softmax(_cast(-input, dtype), axis=dim)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Logarithm of softmax along dim. dtype: cast to it first."""
    dim = _softmax_dim("log_softmax", input._a.ndim, dim)
    return xp.log_softmax(_cast(input, dtype), axis=dim)
