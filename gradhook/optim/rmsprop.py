"""RMSprop, centred and with momentum as options."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_lr, check_values
from gradhook.optim.elementwise import Elementwise, lerp, mean_square, root, value_of
from gradhook.optim.optimizer import Group


class RMSprop(Elementwise):
    """p -= lr * g / (sqrt(v) + eps), v being the running mean of g * g: alpha * v + (1 - alpha) *
    g * g.

    centered: v less the square of the running mean of g. momentum: b = momentum * b + g / (sqrt(v)
    + eps) is subtracted instead. weight_decay is added to the gradient; maximize: climb. State:
    "step", "square_avg", with momentum "momentum_buffer", centred "grad_avg". foreach, capturable
    and differentiable are accepted for PyTorch's sake. Errors: ValueError for values out of range.
    Source: torch.optim.RMSprop; Hinton's lecture 6e (2012); Graves, arXiv:1308.0850 (centred).
    """

    functor = "rmsprop"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_values(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        names = ["step", "square_avg"]
        names += ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        return dict.fromkeys(names, 0.0)

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        return {
            "rate": value_of(group["lr"]),
            "share": 1 - group["alpha"],
            **{name: group[name] for name in ("alpha", "eps", "momentum", "centered")},
        }

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        square, *more = state
        mean_square(xp, square, g, n.alpha, n.share, out)
        below = square
        if n.centered:
            mean = more[-1]
            lerp(xp, mean, g, n.share, out)
            xp.multiply(mean, mean, out=out)
            below = xp.subtract(square, out, out=out)
        step = xp.divide(g, root(xp, below, n.eps, out), out=out)
        if n.momentum > 0:
            buffer = more[0]
            xp.multiply(buffer, n.momentum, out=buffer)
            step = xp.add(buffer, step, out=buffer)
        xp.subtract(a, xp.multiply(step, n.rate, out=out), out=a)
