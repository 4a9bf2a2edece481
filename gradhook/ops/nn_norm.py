"""Normalisation by the mean and variance, or by the root mean square, over some axes."""

from __future__ import annotations

from typing import Any

from gradhook.dtypes import accumulation, raw
from gradhook.ops.table import composite, op

Array = Any


def _standardized(
    xp: Any, x: Array, weight: Array | None, bias: Array | None, axis: Any, eps: float
) -> Array:
    kind = x.dtype
    x = x.astype(accumulation(kind), copy=False)
    out = x - xp.mean(x, axis=axis, keepdims=True)
    scale = xp.mean(out * out, axis=axis, keepdims=True)
    scale += eps
    out /= xp.sqrt(scale)
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return out.astype(kind, copy=False)


def _wide(xp: Any, x: Array) -> Array:
    """x in the dtype sums are made in: float16 squares overflow at 256."""
    kind: Any = raw(x.dtype)
    wide = accumulation(kind)
    return x if wide == kind else xp.cast(x, dtype=wide)


@composite(method=False, fresh=True)
def standardize_vjp(
    xp: Any, g: Array, x: Array, weight: Array | None = None, *, axis: Any, eps: float
) -> tuple[Array, Array]:
    """The gradients of layer_norm for x and weight: with y the standardized x and h = g * weight,
    (h - mean(h) - y * mean(h * y)) / std and g * y. Result: shape of x, twice.
    """
    g, x = _wide(xp, g), _wide(xp, x)
    centred = xp.subtract(x, xp.mean(x, axis=axis, keepdims=True))
    std = xp.sqrt(xp.add(xp.mean(xp.square(centred), axis=axis, keepdims=True), eps))
    y = xp.divide(centred, std)
    h = g if weight is None else xp.multiply(g, weight)
    gy = xp.multiply(g, y)
    hy = gy if weight is None else xp.multiply(gy, weight)
    spread = xp.multiply(y, xp.mean(hy, axis=axis, keepdims=True))
    return xp.divide(
        xp.subtract(xp.subtract(h, xp.mean(h, axis=axis, keepdims=True)), spread), std
    ), gy


@composite(method=False, fresh=True)
def layer_norm_vjp(
    xp: Any,
    g: Array,
    x: Array,
    weight: Array | None = None,
    *,
    axis: Any,
    eps: float,
    weight_shape: tuple[int, ...] | None,
    bias_shape: tuple[int, ...] | None,
) -> tuple[Array, Array | None, Array | None]:
    """All three gradients of layer_norm: those of standardize_vjp, summed to the weight's shape,
    and g summed to the bias's.
    """
    by_x, by_weight = xp.standardize_vjp(g, x, weight, axis=axis, eps=eps)
    return (
        by_x,
        None if weight_shape is None else xp.sum_to(by_weight, shape=weight_shape),
        None if bias_shape is None else xp.sum_to(_wide(xp, g), shape=bias_shape),
    )


@op(
    method=False,
    bias=lambda xp, g: g,
    joint={
        ("x", "weight"): lambda xp, g, x, weight, axis, eps: xp.standardize_vjp(
            g, x, weight, axis=axis, eps=eps
        ),
        ("x", "weight", "bias"): lambda xp, g, x, weight, axis, eps, weight_shape, bias_shape: (
            xp.layer_norm_vjp(
                g, x, weight, axis=axis, eps=eps, weight_shape=weight_shape, bias_shape=bias_shape
            )
        ),
    },
    takes="f",
)
def layer_norm(
    xp: Any,
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axis: Any,
    eps: float = 1e-5,
) -> Array:
    """(x - mean) / sqrt(var + eps) * weight + bias over `axis`, var biased.

    x: any shape, floating; weight and bias broadcast to it. Result: shape and dtype of x.
    Source: arXiv:1607.06450.
    """
    return _standardized(xp, x, weight, bias, axis, eps)


@op(
    method=False,
    joint={
        ("x", "weight"): lambda xp, g, x, weight, axis, eps: xp.standardize_vjp(
            g, x, weight, axis=axis, eps=eps
        ),
        ("x", "weight", "bias"): lambda xp, g, x, weight, axis, eps, weight_shape, bias_shape: (
            xp.layer_norm_vjp(
                g, x, weight, axis=axis, eps=eps, weight_shape=weight_shape, bias_shape=bias_shape
            )
        ),
    },
    bias=lambda xp, g: g,
    takes="f",
)
def batch_norm(
    xp: Any,
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axis: Any,
    eps: float = 1e-5,
) -> Array:
    """As layer_norm, over the batch and spatial axes. Result: shape and dtype of x.

    Source: arXiv:1502.03167.
    """
    return _standardized(xp, x, weight, bias, axis, eps)


@op(torch=None, n_outputs=2, x=None, mean=None, var=None)
def running_moments(
    xp: Any, x: Array, mean: Array, var: Array, *, axis: Any, momentum: float
) -> tuple[Array, Array]:
    """Running statistics moved by `momentum` towards the mean and the unbiased variance of x.

    x: floating; mean, var: what is left of its shape. Results: shape and dtype of mean and var.
    Source: torch.nn.BatchNorm2d.
    """
    wide = x.astype(accumulation(x.dtype), copy=False)
    n = x.size // max(mean.size, 1)
    batch = wide.mean(axis=axis), wide.var(axis=axis) * (n / max(n - 1, 1))
    moved = [
        (running * (1 - momentum) + found.reshape(running.shape) * momentum).astype(running.dtype)
        for running, found in zip((mean, var), batch, strict=True)
    ]
    return moved[0], moved[1]


@composite(method=False, fresh=True)
def rms_norm_vjp(
    xp: Any, g: Array, x: Array, weight: Array | None = None, *, axis: Any, eps: float
) -> tuple[Array, Array]:
    """The gradients of rms_norm for x and weight: with y = x / rms and h = g * weight,
    (h - y * mean(h * y)) / rms and g * y. Result: shape of x, twice.
    """
    g, x = _wide(xp, g), _wide(xp, x)
    rms = xp.sqrt(xp.add(xp.mean(xp.square(x), axis=axis, keepdims=True), eps))
    y = xp.divide(x, rms)
    gy = xp.multiply(g, y)
    h = g if weight is None else xp.multiply(g, weight)
    hy = gy if weight is None else xp.multiply(gy, weight)
    return xp.divide(xp.subtract(h, xp.multiply(y, xp.mean(hy, axis=axis, keepdims=True))), rms), gy


@op(
    method=False,
    joint={
        ("x", "weight"): lambda xp, g, x, weight, axis, eps: xp.rms_norm_vjp(
            g, x, weight, axis=axis, eps=eps
        )
    },
    takes="fc",
)
def rms_norm(xp: Any, x: Array, weight: Array | None = None, *, axis: Any, eps: float) -> Array:
    """x / sqrt(mean(x * x) + eps) * weight over `axis`.

    x: any shape, floating; weight broadcasts to it. Result: shape and dtype of x.
    Source: arXiv:1910.07467.
    """
    kind = x.dtype
    x = x.astype(accumulation(kind), copy=False)
    scale = xp.mean(x * x, axis=axis, keepdims=True)
    scale += eps
    out = x / xp.sqrt(scale)
    if weight is not None:
        out *= weight
    return out.astype(kind, copy=False)
