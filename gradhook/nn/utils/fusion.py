"""Batch norm in evaluation folded into the layer before it. Source: torch.nn.utils.fusion."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from gradhook.creation import ones_like, zeros_like
from gradhook.modes import no_grad
from gradhook.nn.linear import Linear
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

C = TypeVar("C", bound=Module)
L = TypeVar("L", bound=Linear)


def _check(layer: Module, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: C, bn: Any, transpose: bool = False) -> C:
    """A new convolution that computes bn(conv(x)); both in evaluation mode.

    transpose: conv is a transposed one. Errors: AssertionError in training mode or without running
    statistics. Source: torch.nn.utils.fuse_conv_bn_eval.
    """
    _check(conv, bn)
    fused: Any = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    made: C = fused
    return made


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of a convolution followed by batch norm with these running statistics.

    conv_w: (out, in, ...), (in, out, ...) with transpose; the others: (out,). dtypes are those of
    conv_w and conv_b. Source: torch.nn.utils.fuse_conv_bn_weights.
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), shape)


def fuse_linear_bn_eval(linear: L, bn: Any) -> L:
    """A new linear layer that computes bn(linear(x)); both in evaluation mode.

    Errors: AssertionError in training mode, without running statistics, or unless bn has as many
    features as linear has outputs, or one. Source: torch.nn.utils.fuse_linear_bn_eval.
    """
    _check(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of a linear layer followed by batch norm with these running statistics.

    linear_w: (out, in); the others: (out,). dtypes are those of linear_w and linear_b.
    Source: torch.nn.utils.fuse_linear_bn_weights.
    """
    return _fused(linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), [-1, 1])


def _fused(
    weight: Tensor, bias: Tensor | None, bn: tuple[Any, ...], shape: list[int]
) -> tuple[Parameter, Parameter]:
    """shape: of the norm's scale against weight."""
    mean, variance, eps, scale, shift = bn
    with no_grad():
        start = zeros_like(mean) if bias is None else bias
        scale = ones_like(mean) if scale is None else scale
        shift = zeros_like(mean) if shift is None else shift
        factor = scale * (variance + eps).rsqrt()
        fused = (weight * factor.reshape(shape)).to(dtype=weight.dtype)
        moved = (start - mean) * factor + shift
        moved = moved.to(dtype=weight.dtype if bias is None else bias.dtype)
    return (
        Parameter(fused, weight.requires_grad),
        Parameter(moved, bias is not None and bias.requires_grad),
    )
