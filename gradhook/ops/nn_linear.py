"""The affine map and its gradients: ops closed under differentiation."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from gradhook.dtypes import accumulation
from gradhook.ops.table import op

Array = Any


def _rows(x: Array) -> Array:
    """x as a matrix: its last axis kept, the others in one."""
    return x if x.ndim == 2 else x.reshape((prod(x.shape[:-1]), x.shape[-1]))


def _affine(xp: Any, x: Array, matrix: Array) -> Array:
    """x @ matrix over the last axis of x, as one matrix product whatever the leading axes."""
    if matrix.ndim != 2 or x.ndim == 0 or x.shape[-1] != matrix.shape[0]:
        raise _mismatch(x, matrix.T)
    return xp.dot(_rows(x), matrix).reshape((*x.shape[:-1], matrix.shape[1]))


def _mismatch(x: Array, weight: Array) -> RuntimeError:
    rows = prod(x.shape[:-1])
    found = f"{rows}x{x.shape[-1] if x.ndim else 1} and {'x'.join(map(str, weight.shape[::-1]))}"
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({found}): linear expects input (..., "
        "in_features) and weight (out_features, in_features), found "
        f"{tuple(x.shape)} and {tuple(weight.shape)}"
    )


@lru_cache(256)
def ones(xp: Any, n: int, kind: str) -> Array:
    """n ones, kept: the same for every sum of that many rows. On NumPy only."""
    return xp.ones(n, kind)


@op(
    torch="nn.functional.linear(input, weight, bias=None)",
    method=False,
    promote="same",
    x=lambda xp, g, weight: xp.linear_input(g, weight),
    weight=lambda xp, g, x: xp.linear_weight(g, x),
    bias=lambda xp, g: xp.linear_bias(g),
    joint={("weight", "bias"): lambda xp, g, x: xp.linear_parameters(g, x)},
)
def linear(xp: Any, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x @ weight.T + bias.

    x: (..., in), weight: (out, in), bias: (out,) or None; one floating or complex dtype. Result:
    (..., out). Errors: RuntimeError names both shapes when the last axes differ.
    """
    try:
        out = xp.dot(x, weight.T) if x.ndim == 2 == weight.ndim else _affine(xp, x, weight.T)
    except ValueError as error:
        raise _mismatch(x, weight) from error
    if bias is not None:
        if bias.dtype is not out.dtype and bias.dtype != out.dtype:
            raise RuntimeError(
                f"linear: expected bias of dtype {out.dtype.name}, as input and weight are, found "
                f"{bias.dtype.name}; cast it with .to()"
            )
        out += bias
    return out


@op(
    method=False,
    grad=lambda xp, g, weight: xp.linear(g, weight),
    weight=lambda xp, g, grad: xp.linear_weight(grad, g),
)
def linear_input(xp: Any, grad: Array, weight: Array) -> Array:
    """grad @ weight, the gradient of `linear` for its input.

    grad: (..., out), weight: (out, in). Result: (..., in).
    """
    return xp.dot(grad, weight) if grad.ndim == 2 else _affine(xp, grad, weight)


@op(
    method=False,
    grad=lambda xp, g, x: xp.linear(x, g),
    x=lambda xp, g, grad: xp.linear_input(grad, g),
)
def linear_weight(xp: Any, grad: Array, x: Array) -> Array:
    """The sum over leading axes of grad_i x_j, the gradient of `linear` for its weight.

    grad: (..., out), x: (..., in). Result: (out, in).
    """
    return xp.dot(grad.T, x) if x.ndim == 2 else xp.dot(_rows(grad).T, _rows(x))


@op(method=False, linear=True, grad=lambda xp, g, grad_shape: xp.broadcast_to(g, shape=grad_shape))
def linear_bias(xp: Any, grad: Array) -> Array:
    """The sum over leading axes, the gradient of `linear` for its bias. grad: (..., out).

    Result: (out,). One reduction, where conform would need several calls.
    """
    rows = grad if grad.ndim == 2 else _rows(grad)
    if type(rows) is np.ndarray and len(rows) < 4096 and grad.dtype.char in "fd":
        # a product with ones: half NumPy's reduction
        return xp.dot(ones(xp, len(rows), grad.dtype.char), rows)
    return xp.add.reduce(rows, 0, accumulation(grad.dtype)).astype(grad.dtype, copy=False)


@op(
    method=False,
    n_outputs=2,
    grad=lambda xp, g0, g1, x: xp.linear(xp.conj(x), g0, g1),
    x=lambda xp, g0, grad: xp.linear_input(xp.conj(grad), g0),
)
def linear_parameters(xp: Any, grad: Array, x: Array) -> tuple[Array, Array]:
    """The gradients of `linear` for its weight and its bias at once.

    grad: (..., out), x: (..., in). Result: (out, in) and (out,).
    """
    return linear_weight(xp, grad, x), linear_bias(xp, grad)
