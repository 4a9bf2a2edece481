"""RAdam: Adam whose first steps are rectified."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_betas, check_lr, check_values
from gradhook.optim.elementwise import Elementwise, lerp, mean_square, root, shares, value_of
from gradhook.optim.optimizer import Group


class RAdam(Elementwise):
    """p -= lr * m̂ * r * sqrt(1 - beta2 ** step) / (sqrt(v) + eps), m and v being running means of g
    and g * g; while v knows too few steps, p -= lr * m̂.

    m̂ = m / (1 - beta1 ** step). With R = 2 / (1 - beta2) - 1 and rho = R - 2 * step * beta2 ** step
    / (1 - beta2 ** step), r = sqrt((rho - 4)(rho - 2) R / ((R - 4)(R - 2) rho)); few: rho <= 5.
    weight_decay is added to the gradient, or with decoupled_weight_decay shrinks p first; maximize:
    climb. State: "step", "exp_avg", "exp_avg_sq". foreach, capturable and differentiable are
    accepted for PyTorch's sake. Errors: ValueError for values out of range. Source:
    torch.optim.RAdam; arXiv:1908.03265.
    """

    functor = "radam"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        beta1, beta2 = (value_of(b) for b in group["betas"])
        step = state["step"]._a.item()
        left = 1 - beta2**step
        most = 2 / (1 - beta2) - 1
        rho = most - 2 * step * beta2**step / left
        rate = value_of(group["lr"]) / (1 - beta1**step)
        if rho > 5:
            below = (most - 4) * (most - 2) * rho
            rate = rate * (left * (rho - 4) * (rho - 2) * most / below) ** 0.5
        return {
            "rate": rate,
            **shares(group["betas"]),
            "eps": group["eps"],
            "rectified": rho > 5,
        }

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        mean, square = state
        lerp(xp, mean, g, n.share1, out)
        mean_square(xp, square, g, n.beta2, n.share2, out)
        if n.rectified:
            xp.divide(mean, root(xp, square, n.eps, out), out=out)
            xp.multiply(out, n.rate, out=out)
        else:
            xp.multiply(mean, n.rate, out=out)
        xp.subtract(a, out, out=a)
