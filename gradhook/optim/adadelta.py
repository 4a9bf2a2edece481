"""Adadelta."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_lr, check_values
from gradhook.optim.elementwise import Elementwise, mean_square, value_of
from gradhook.optim.optimizer import Group


class Adadelta(Elementwise):
    """p -= lr * d, where d = sqrt(u + eps) / sqrt(v + eps) * g, v and u being the running means of
    g * g and d * d: rho * v + (1 - rho) * g * g.

    weight_decay is added to the gradient; maximize: climb. State: "step", "square_avg",
    "acc_delta". foreach, capturable and differentiable are accepted for PyTorch's sake. Errors:
    ValueError for values out of range. Source: torch.optim.Adadelta; arXiv:1212.5701.
    """

    functor = "adadelta"

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_values(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        return {"step": 0.0, "square_avg": 0.0, "acc_delta": 0.0}

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        rho = group["rho"]
        return {
            "rate": value_of(group["lr"]),
            "eps": group["eps"],
            "rho": rho,
            "share": 1 - rho,
        }

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        square, moved = state
        mean_square(xp, square, g, n.rho, n.share, out)
        delta = xp.sqrt(moved + n.eps)
        xp.sqrt(xp.add(square, n.eps, out=out), out=out)
        delta = xp.multiply(xp.divide(delta, out, out=out), g, out=self.scratch(a, 3))
        mean_square(xp, moved, delta, n.rho, n.share, out)
        xp.subtract(a, xp.multiply(delta, n.rate, out=out), out=a)
