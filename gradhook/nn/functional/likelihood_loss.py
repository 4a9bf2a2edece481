"""Negative log likelihoods of Gaussian and Poisson variables, and of several labels."""

from __future__ import annotations

import math

import numpy as np

from gradhook import creation
from gradhook.modes import no_grad
from gradhook.nn.functional.activation import logsigmoid
from gradhook.nn.functional.loss import reduce_loss, reduction_of
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target * input, or input - target * log(input + eps) when input is no logarithm.

    full: with Stirling's term for target > 1. Shapes broadcast. Floating.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if log_input:
        losses = xp.exp(input) - target * input
    else:
        losses = input - target * xp.log(input + eps)
    if full:
        stirling = target * xp.log(target) - target + 0.5 * xp.log(2 * math.pi * target)
        losses = losses + xp.masked_fill(stirling, target <= 1, value=0)
    return reduce_loss(losses, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log(var) + (input - target) ** 2 / var) / 2, var at least eps; its gradient passes there.

    var: as input, with 1 for one of its axes or without its last one, or a number. full: with the
    constant. Errors: ValueError for other shapes and (on the CPU) a negative var. Floating.
    """
    if not isinstance(var, Tensor):
        var = creation.full_like(input, float(var)) if var >= 0 else creation.tensor(float(var))
    if type(var._a) is np.ndarray and (var._a < 0).any():
        raise ValueError("var has negative entry/entries")
    var = _spread(input, var)
    reduction = reduction_of(None, None, reduction)
    var = xp.clone(var)
    with no_grad():
        var.clamp_(min=eps)
    d = input - target
    losses = 0.5 * (xp.log(var) + d * d / var)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduce_loss(losses, reduction)


def _spread(input: Tensor, var: Tensor) -> Tensor:
    """var with the dimensions of input. Errors: ValueError where they do not fit."""
    shape, found = tuple(input._a.shape), tuple(var._a.shape)
    if shape == found:
        return var
    if shape[:-1] == found:
        return xp.expand_dims(var, axis=-1)
    if len(shape) == len(found):
        differing = [m for n, m in zip(shape, found, strict=True) if n != m]
        if sum(differing) == 1:
            return var
    raise ValueError("var is of incorrect size")


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of the cross entropy of sigmoid(input) with target in [0, 1].

    input, target: (batch, classes) or (classes,); weight: (classes,). Floating.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduce_loss(xp.sum(losses, axis=-1) / losses._a.shape[-1], reduction)
