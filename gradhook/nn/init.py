"""Initialisation of tensors in place, outside the graph, drawn from a Generator."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import numpy as np

from gradhook import backend, random
from gradhook.hooks.notices import caller_depth
from gradhook.overloads.arguments import tensors_only
from gradhook.storage import bump
from gradhook.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Tensor])

_TINY = 2.0**-1000
_LINEAR = {"linear", "sigmoid"} | {f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)}


_skipped: ContextVar[bool] = ContextVar("gradhook_init_skipped", default=False)


@contextmanager
def skipping() -> Iterator[None]:
    """Within, the functions of this module leave their tensors as they are and draw nothing."""
    outer = _skipped.get()
    _skipped.set(True)
    try:
        yield
    finally:
        _skipped.set(outer)


def _fills(function: F) -> F:
    @functools.wraps(function)
    def filled(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if _skipped.get() else function(tensor, *args, **kwargs)

    return cast(F, filled)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of a nonlinearity; param: leaky_relu's slope.

    Errors: ValueError for an unknown one.
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _fill(tensor: Tensor, values: Any) -> Tensor:
    tensor._a[...] = values
    bump(tensor)
    return tensor


def _source(generator: random.Generator | None) -> random.Generator:
    return random.default_generator if generator is None else generator


@_fills
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: random.Generator | None = None
) -> Tensor:
    """Fill with U(a, b). tensor: any shape, floating; returned."""
    draws = _source(generator).random(tensor._a.shape, tensor._a.dtype, like=tensor._a)
    return _fill(tensor, draws * (b - a) + a)


@_fills
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None
) -> Tensor:
    """Fill with N(mean, std²). tensor: any shape, floating; returned."""
    draws = _source(generator).normal(tensor._a.shape, tensor._a.dtype, like=tensor._a)
    return _fill(tensor, draws * std + mean)


@_fills
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: random.Generator | None = None,
) -> Tensor:
    """Fill with N(mean, std²) cut to [a, b]: what falls outside is drawn again.

    tensor is returned.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=caller_depth(),
        )
    from statistics import NormalDist  # only here: its imports are a thirtieth of gradhook's

    source, shape = _source(generator), tensor._a.shape
    values = np.asarray(source.normal(shape, np.float64)) * std + mean
    outside = (values < a) | (values > b)
    # A draw inside the limits has the cut distribution; one outside is replaced by the inverse.
    normal = NormalDist(mean, std)
    low, high = normal.cdf(a), normal.cdf(b)
    again = np.asarray(source.random((int(outside.sum()),), np.float64)) * (high - low) + low
    values[outside] = [normal.inv_cdf(min(max(p, _TINY), 1 - 2**-53)) for p in again.tolist()]
    return _fill(
        tensor, backend.to_device(values.clip(a, b).astype(tensor._a.dtype), tensor.device)
    )


@_fills
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with a number."""
    return _fill(tensor, val)


@_fills
def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return _fill(tensor, 1)


@_fills
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return _fill(tensor, 0)


@_fills
def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix. Errors: ValueError unless tensor is a matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    _fill(tensor, 0)
    diagonal = range(min(tensor._a.shape))
    tensor._a[list(diagonal), list(diagonal)] = 1
    return tensor


@_fills
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The convolution weight that keeps its input, in each group.

    Errors: ValueError for other than 3 to 5 dims.
    """
    shape = tensor._a.shape
    if len(shape) not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    _fill(tensor, 0)
    out = shape[0] // groups
    centre = tuple(n // 2 for n in shape[2:])
    for g in range(groups):
        for d in range(min(out, shape[1])):
            tensor._a[(g * out + d, d, *centre)] = 1
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight: (out, in, *kernel)."""
    shape = tensor._a.shape
    if len(shape) < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


_calculate_fan_in_and_fan_out = _fans


@_fills
def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None
) -> Tensor:
    """U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    tensor: (out, in, ...). Source: Glorot and Bengio, 2010.
    """
    a = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -a, a, generator)


@_fills
def xavier_normal_(
    tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None
) -> Tensor:
    """N(0, std²), std = gain * sqrt(2 / (fan_in + fan_out)).

    tensor: (out, in, ...). Source: Glorot and Bengio, 2010.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """None for an empty tensor, which stays as it is."""
    if 0 in tensor._a.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=caller_depth())
        return None
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


@_fills
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """U(-b, b), b = gain * sqrt(3 / fan).

    tensor: (out, in, ...); a: leaky_relu's slope. Source: He et al., 2015.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return (
        tensor
        if std is None
        else uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)
    )


@_fills
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """N(0, std²), std = gain / sqrt(fan).

    tensor: (out, in, ...); a: leaky_relu's slope. Source: He et al., 2015.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


@_fills
def orthogonal_(
    tensor: Tensor, gain: float = 1, generator: random.Generator | None = None
) -> Tensor:
    """A (semi-)orthogonal matrix times gain; further axes count as columns.

    Source: Saxe et al., 2013.
    """
    shape = tensor._a.shape
    if len(shape) < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if 0 in shape:
        return tensor
    rows, columns = shape[0], math.prod(shape[1:])
    draws = np.asarray(_source(generator).normal((rows, columns), np.float64))
    q, r = np.linalg.qr(draws.T if rows < columns else draws)
    q = q * np.sign(np.diag(r))
    values = (q.T if rows < columns else q).reshape(shape) * gain
    return _fill(tensor, backend.to_device(values.astype(tensor._a.dtype), tensor.device))


@_fills
def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: random.Generator | None = None
) -> Tensor:
    """A matrix of N(0, std²) in which a share `sparsity` of each column is 0.

    Errors: ValueError unless a matrix.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor._a.shape
    normal_(tensor, 0, std, generator)
    for column in range(columns):
        zeros = _source(generator).permutation(rows, like=tensor._a)[: math.ceil(sparsity * rows)]
        tensor._a[zeros, column] = 0
    return tensor


globals().update(
    {
        name: tensors_only(function, f"nn.init.{name}")
        for name, function in list(globals().items())
        if name.endswith("_") and not name.startswith("_")
    }
)
