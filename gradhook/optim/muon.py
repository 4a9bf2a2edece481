"""Muon: momentum whose matrix is made orthogonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.optim.checks import check_amounts, check_one_element
from gradhook.optim.elementwise import lerp, value_of
from gradhook.optim.optimizer import Group, Optimizer
from gradhook.storage import bump


class Muon(Optimizer):
    """p = (1 - lr * weight_decay) * p - lr * r * O, O being the nearly orthogonal matrix that
    Newton-Schulz steps make of the running mean m of the gradients, momentum * m + (1 - momentum) *
    g; nesterov: of g + momentum * (m - g).

    For matrices only (hidden layers); give biases and embeddings to AdamW. ns_coefficients, eps and
    ns_steps: see orthogonal. adjust_lr_fn: r = sqrt(max(1, rows / columns)) for None and
    "original", 0.2 * sqrt(max(rows, columns)) for "match_rms_adamw". State: "momentum_buffer".
    Errors: ValueError for values out of range and parameters that are no matrix; RuntimeError for
    complex ones. Source: torch.optim.Muon; https://kellerjordan.github.io/posts/muon/,
    arXiv:2502.16982.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_element(lr)
        check_amounts(Learning_rate=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    @np.errstate(all="ignore")
    def update(self, group: Group) -> None:
        """One step of one group."""
        lr, momentum = value_of(group["lr"]), group["momentum"]
        for p, a, g in self.with_gradients(group):
            if a.dtype.kind == "c":
                raise RuntimeError("Muon does not support complex parameters")
            if g.ndim != 2:
                raise ValueError("Param gradient must be a 2D matrix")
            xp, state = ARRAY_MODULES[type(a)], self.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = make(xp.zeros_like(g))
            buffer, out = state["momentum_buffer"], self.scratch(a)
            lerp(xp, buffer._a, g, 1 - momentum, out)
            mean = g + momentum * (buffer._a - g) if group["nesterov"] else buffer._a
            step = orthogonal(xp, mean, group["ns_coefficients"], group["ns_steps"], group["eps"])
            a *= 1 - lr * group["weight_decay"]
            a -= (step * (lr * _ratio(group["adjust_lr_fn"], *a.shape))).astype(a.dtype)
            bump(p)
            bump(buffer)


def orthogonal(xp: Any, a: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """A matrix with the singular vectors of `a` and singular values of about 1 (0.7 to 1.2), by
    steps of X <- x X + (y G + z G G) X, G = X X', from a / max(norm(a), eps).

    Computed in float32 with results rounded to bfloat16, as PyTorch's. Returns float32. Errors:
    ValueError for 100 steps or more, and unless there are three coefficients.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    tall = a.shape[0] > a.shape[1]
    x = bfloat16(xp, a.T if tall else a)
    norm = bfloat16(xp, xp.sqrt((x * x).sum()))
    x = bfloat16(xp, x / xp.maximum(norm, bfloat16(xp, xp.asarray(eps))))
    first, second, third = (np.float32(c) for c in coefficients)
    for _ in range(steps):
        gram = bfloat16(xp, x @ x.T)
        change = bfloat16(xp, second * gram + third * (gram @ gram))
        x = bfloat16(xp, first * x + change @ x)
    return x.T if tall else x


def bfloat16(xp: Any, a: Any) -> Any:
    """The nearest bfloat16 values, ties to even, as float32."""
    bits = xp.ascontiguousarray(a, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + (odd + np.uint32(0x7FFF))) & np.uint32(0xFFFF0000)
    return xp.where(xp.isfinite(a), rounded.view(np.float32), a).astype(np.float32)


def _ratio(adjust: str | None, rows: int, columns: int) -> float:
    """What the learning rate is multiplied by for a matrix of this shape."""
    if adjust == "match_rms_adamw":
        return float(0.2 * max(rows, columns) ** 0.5)
    return float(max(1, rows / columns) ** 0.5)
