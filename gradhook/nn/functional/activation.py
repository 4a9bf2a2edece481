"""Activations in PyTorch's signatures: `inplace`, `dim` and `dtype` on top of the table's
functions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from gradhook import dtypes
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def _maybe_in_place(
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
    """relu in place."""
    return input.relu_()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x cut to [min_val, max_val]. Errors: ValueError unless min_val <= max_val."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _maybe_in_place(xp.hardtanh, input, inplace, low=min_val, high=max_val)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return _maybe_in_place(xp.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return _maybe_in_place(lambda x: x * xp.tanh(xp.softplus(x)), input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, negative_slope * x elsewhere."""
    return _maybe_in_place(xp.leaky_relu, input, inplace, negative_slope=negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, alpha * (exp(x) - 1) elsewhere."""
    return _maybe_in_place(xp.elu, input, inplace, alpha=alpha)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, x itself where beta * x > threshold."""
    return xp.softplus(input, beta=beta, threshold=threshold)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), stable for every x."""
    return -xp.softplus(-input, threshold=math.inf)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + abs(x))."""
    return input / (1 + xp.absolute(input))


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return xp.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return xp.sigmoid(input)


def _softmax_dim(name: str, ndim: int, dim: int | None) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=3,
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
    """softmax(-x)."""
    dim = _softmax_dim("softmin", input._a.ndim, dim)
    return xp.softmax(_cast(-input, dtype), axis=dim)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Logarithm of softmax along dim. dtype: cast to it first."""
    dim = _softmax_dim("log_softmax", input._a.ndim, dim)
    return xp.log_softmax(_cast(input, dtype), axis=dim)
