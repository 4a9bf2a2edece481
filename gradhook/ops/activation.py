"""relu, gelu, sigmoid, softmax and its kin, with forwards that do not overflow."""

from __future__ import annotations

from typing import Any

from gradhook.dtypes import accumulation
from gradhook.kernels.parts import in_parts
from gradhook.ops.axes import wrap, wrap_all
from gradhook.ops.selection import SMALL, cleared
from gradhook.ops.special import error_function
from gradhook.ops.table import composite, op


@op(method=False, linear=True, grad=lambda xp, g, y: xp.relu_vjp(g, y), y=None)
def relu_vjp(xp: Any, grad: Any, y: Any) -> Any:
    """grad where y > 0 or NaN, else 0: the gradient of relu, y being its result.

    grad, y: one shape. Result: that shape, dtype of grad.
    """
    off = y <= 0
    if grad.size > SMALL and grad.dtype.kind == "f":
        return cleared(xp, grad, off)
    return xp.where(off, 0, grad)


@op(
    torch="relu(input)",
    aliases=("nn.functional.relu",),
    inplace=True,
    x=lambda xp, g, out: xp.relu_vjp(g, out),
    takes="biuf",
)
def relu(xp: Any, x: Any) -> Any:
    """x where positive, else 0; the gradient at 0 is 0.

    x: any shape, real. Result: shape and dtype of x.
    """
    return xp.maximum(x, 0)


@op(
    torch="sigmoid(input)",
    aliases=("nn.functional.sigmoid", "special.expit"),
    inplace=True,
    promote="float",
    x=lambda xp, g, out: g * (out * (1 - out)),
)
def sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)). x: any shape. Result: shape of x, floating or complex."""
    return 1 / (1 + xp.exp(-x))


@composite(fresh=True)
def gelu_vjp(xp: Any, g: Any, x: Any, *, approximate: str) -> Any:
    """Gradient of gelu. g, x: one shape. Result: that shape."""
    if approximate == "tanh":
        inner = xp.tanh((x + x * x * x * 0.044715) * 0.7978845608028654)
        slope = (1 - inner * inner) * (x * x * 0.10703222440890037 + 0.7978845608028654)
        return g * ((inner + 1) * 0.5 + x * slope * 0.5)
    density = xp.exp(x * x * -0.5) * 0.3989422804014327
    return g * ((xp.erf(x * 0.7071067811865476) + 1) * 0.5 + x * density)


@op(
    torch="nn.functional.gelu(input, *, approximate='none')",
    method=False,
    x=lambda xp, g, x, approximate: xp.gelu_vjp(g, x, approximate=approximate),
    takes="f",
)
def gelu(xp: Any, x: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function of x, exact or by tanh.

    x: any shape, floating. Result: as x.

    Errors: RuntimeError when approximate is neither "none" nor "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return in_parts(xp, _gelu_by_tanh if approximate == "tanh" else _gelu, x)


def _gelu_by_tanh(xp: Any, x: Any) -> Any:
    return (xp.tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1) * 0.5 * x


def _gelu(xp: Any, x: Any) -> Any:
    return (error_function(xp, x * 0.7071067811865476) + 1) * 0.5 * x


def _shifted(xp: Any, x: Any, axis: int) -> Any:
    """x minus its largest element along `axis`, in the dtype sums are made in."""
    x = x.astype(accumulation(x.dtype), copy=False)
    return x - x.max(axis=axis, keepdims=True)


@composite(method=False, fresh=True)
def softmax_vjp(xp: Any, g: Any, out: Any, *, axis: int) -> Any:
    """Gradient of softmax. g, out: one shape. Result: that shape."""
    return out * (g - xp.sum(g * out, axis=axis, keepdims=True))


@composite(method=False, fresh=True)
def log_softmax_vjp(xp: Any, g: Any, out: Any, *, axis: int) -> Any:
    """Gradient of log_softmax. g, out: one shape. Result: that shape."""
    return g - xp.exp(out) * xp.sum(g, axis=axis, keepdims=True)


@op(torch=None, x=lambda xp, g, out, axis: xp.softmax_vjp(g, out, axis=axis), takes="f")
def softmax(xp: Any, x: Any, *, axis: int) -> Any:
    """exp(x) over its sum along `axis`. x: any shape, floating. Result: shape and dtype of x."""
    axis = wrap(axis, x.ndim)
    if x.ndim == 0 or x.size == 0:
        return xp.ones(x.shape, x.dtype)
    powers = xp.exp(_shifted(xp, x, axis))
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype, copy=False)


@op(torch=None, x=lambda xp, g, out, axis: xp.log_softmax_vjp(g, out, axis=axis), takes="f")
def log_softmax(xp: Any, x: Any, *, axis: int) -> Any:
    """Logarithm of softmax along `axis`. x: any shape, floating. Result: shape and dtype of x."""
    axis = wrap(axis, x.ndim)
    if x.ndim == 0 or x.size == 0:
        return xp.zeros(x.shape, x.dtype)
    shifted = _shifted(xp, x, axis)
    return (shifted - xp.log(xp.exp(shifted).sum(axis=axis, keepdims=True))).astype(
        x.dtype, copy=False
    )


@composite(fresh=True)
def logsumexp_vjp(xp: Any, g: Any, x: Any, out: Any, *, axis: Any, keepdims: bool) -> Any:
    """Gradient of logsumexp: g times softmax, 0 where the sum is 0.

    g, out: the reduced shape. Result: as x.
    """
    shape = tuple(x.shape)
    total = xp.expand_reduced(out, shape=shape, axis=axis, keepdims=keepdims)
    return xp.expand_reduced(g, shape=shape, axis=axis, keepdims=keepdims) * xp.exp(x - total)


@op(
    torch="logsumexp(input, dim, keepdim=False)",
    aliases=("special.logsumexp",),
    promote="float",
    x=lambda xp, g, x, out, axis, keepdims: xp.logsumexp_vjp(
        g, x, out, axis=axis, keepdims=keepdims
    ),
)
def logsumexp(xp: Any, x: Any, *, axis: Any, keepdims: bool = False) -> Any:
    """Logarithm of the sum of exponentials over `axis`, -inf of nothing.

    x: any shape. Result: reduced, floating.
    """
    axes = wrap_all(axis, x.ndim)
    if x.size == 0:
        return xp.log(xp.exp(x).sum(axis=axes, keepdims=keepdims))
    wide = x.astype(accumulation(x.dtype), copy=False)
    top = wide.real.max(axis=axes, keepdims=True)
    top = xp.where(xp.isfinite(top), top, top.dtype.type(0))
    result = xp.log(xp.exp(wide - top).sum(axis=axes, keepdims=True)) + top
    return (result if keepdims else result.squeeze(axes)).astype(x.dtype, copy=False)
