"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from gradhook.optim.adam import Adam


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter, p *= 1 - lr * weight_decay, instead of joining
    the gradient.

    Source: torch.optim.AdamW; arXiv:1711.05101.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
