"""Activations of neural networks beyond the elementwise family's relu, gelu, tanh and sigmoid."""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import composite, op

Array = Any


@composite(method=False, fresh=True)
def silu_vjp(xp: Any, g: Array, x: Array) -> Array:
    """Gradient of silu. g, x: one shape. Result: that shape."""
    s = xp.sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


@op(method=False, x=lambda xp, g, x: xp.silu_vjp(g, x), takes="fc")
def silu(xp: Any, x: Array) -> Array:
    """x * sigmoid(x).

    x: any shape, floating. Result: shape and dtype of x. Source: arXiv:1606.08415.
    """
    return x / (1 + xp.exp(-x))


@op(
    method=False,
    x=lambda xp, g, x, negative_slope: xp.where(x > 0, g, g * negative_slope),
    takes="f",
)
def leaky_relu(xp: Any, x: Array, *, negative_slope: float = 0.01) -> Array:
    """x where x > 0, negative_slope * x elsewhere.

    x: any shape, floating. Result: shape and dtype of x.
    """
    return xp.where(x > 0, x, x * negative_slope)


@op(
    method=False,
    x=lambda xp, g, x, beta, threshold: xp.where(x * beta > threshold, g, g * xp.sigmoid(x * beta)),
    takes="f",
)
def softplus(xp: Any, x: Array, *, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold.

    x: any shape, floating.

    Result: shape and dtype of x. With threshold=inf it is exact and stable for every x.
    """
    scaled = x * beta
    smooth = (xp.maximum(scaled, 0) + xp.log1p(xp.exp(-xp.abs(scaled)))) / beta
    return xp.where(scaled > threshold, x, smooth)


@op(
    method=False,
    x=lambda xp, g, x, alpha: xp.where(x > 0, g, g * (alpha * xp.exp(x))),
    takes="f",
)
def elu(xp: Any, x: Array, *, alpha: float = 1.0) -> Array:
    """x where x > 0, alpha * (exp(x) - 1) elsewhere.

    x: any shape, floating. Source: arXiv:1511.07289.
    """
    return xp.where(x > 0, x, alpha * xp.expm1(xp.minimum(x, 0)))


@composite(torch="nn.functional.prelu(input, weight)", method=False, takes="f")
def prelu(xp: Any, x: Array, weight: Array) -> Array:
    """x where x > 0, weight * x elsewhere.

    x: (batch, channels, ...) or any shape; weight: (channels,) or (1,).
    """
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    count = weight.shape[0] if weight.ndim else 1
    if count != 1:
        if x.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = x.shape[1] if x.ndim > 1 else 1
        if channels != count:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{count} and channel size = {channels}."
            )
    weight = xp.reshape(
        weight, shape=(count, *(1,) * (x.ndim - 2)) if x.ndim > 1 else x.shape and (count,)
    )
    return xp.where(x > 0, x, xp.multiply(weight, x))


@op(
    method=False,
    x=lambda xp, g, x, low, high: xp.masked_fill(g, xp.logical_or(x <= low, x >= high), value=0),
    takes="biuf",
)
def hardtanh(xp: Any, x: Array, *, low: float = -1.0, high: float = 1.0) -> Array:
    """x cut to [low, high]; at the limits the gradient is 0.

    x: any shape, real. Result: shape and dtype of x; of integers, the limits without their
    fraction. Errors: RuntimeError for bool, and for unsigned integers with a limit below 0.
    """
    kind = x.dtype.kind
    if kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if kind == "u" and (low < 0 or high < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return xp.clip(x, low, high) if kind == "f" else xp.clip(x, int(low), int(high))
