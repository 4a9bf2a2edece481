"""Adam, with AMSGrad and decoupled weight decay as options."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_betas, check_lr, check_values
from gradhook.optim.elementwise import Elementwise, shares, value_of
from gradhook.optim.optimizer import Group


class Adam(Elementwise):
    """p -= lr * m̂ / (sqrt(v̂) + eps), m and v being running means of the gradient and its square.

    m̂ = m / (1 - beta1 ** step), v̂ = v / (1 - beta2 ** step). weight_decay is added to the
    gradient, or with decoupled_weight_decay shrinks p first. amsgrad: the largest v so far.
    maximize: climb. State: "step" (0-d float32), "exp_avg", "exp_avg_sq" and with amsgrad
    "max_exp_avg_sq". foreach, capturable, differentiable and fused are accepted for PyTorch's sake.
    Errors: ValueError for values out of range. Source: torch.optim.Adam; arXiv:1412.6980.
    """

    functor = "adam"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check_values(epsilon=eps)
        check_betas(betas, foreach, capturable)
        check_values(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        names = ["step", "exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * group["amsgrad"]]
        return dict.fromkeys(names, 0.0)

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        beta1, beta2 = (value_of(b) for b in group["betas"])
        step = state["step"]._a.item()
        unbias = (1 - beta2**step) ** 0.5
        return {
            "rate": value_of(group["lr"]) * unbias / (1 - beta1**step),
            "eps": group["eps"] * unbias,
            "amsgrad": group["amsgrad"],
            **shares(group["betas"]),
        }

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        mean, square, *largest = state
        xp.subtract(g, mean, out=out)  # lerp and mean_square, written out: this is the hot one
        xp.multiply(out, n.share1, out=out)
        xp.add(mean, out, out=mean)
        xp.multiply(square, n.beta2, out=square)
        xp.multiply(g, g, out=out)
        xp.multiply(out, n.share2, out=out)
        xp.add(square, out, out=square)
        if n.amsgrad:
            square = xp.maximum(largest[0], square, out=largest[0])
        xp.sqrt(square, out=out)
        xp.add(out, n.eps, out=out)
        xp.divide(mean, out, out=out)
        xp.multiply(out, n.rate, out=out)
        xp.subtract(a, out, out=a)
