"""Adamax: Adam by the infinity norm."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_betas, check_lr, check_values
from gradhook.optim.elementwise import Elementwise, lerp, shares, value_of
from gradhook.optim.optimizer import Group


class Adamax(Elementwise):
    """p -= lr / (1 - beta1 ** step) * m / u, m being the running mean of g and u = max(beta2 * u,
    |g| + eps).

    weight_decay is added to the gradient; maximize: climb. State: "step", "exp_avg", "exp_inf".
    foreach, capturable and differentiable are accepted for PyTorch's sake. Errors: ValueError for
    values out of range. Source: torch.optim.Adamax; arXiv:1412.6980.
    """

    functor = "adamax"

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_values(epsilon=eps)
        check_betas(betas)
        check_values(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": 0.0, "exp_inf": 0.0}

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        left = 1 - value_of(group["betas"][0]) ** state["step"]._a.item()
        rate = value_of(group["lr"]) / left
        return {"rate": rate, **shares(group["betas"]), "eps": group["eps"]}

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        mean, norm = state
        lerp(xp, mean, g, n.share1, out)
        xp.multiply(norm, n.beta2, out=norm)
        xp.add(xp.absolute(g, out=out), n.eps, out=out)
        xp.maximum(norm, out, out=norm)
        xp.multiply(xp.divide(mean, norm, out=out), n.rate, out=out)
        xp.subtract(a, out, out=a)
