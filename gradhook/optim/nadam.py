"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_betas, check_lr, check_values
from gradhook.optim.elementwise import Elementwise, lerp, mean_square, root, shares, value_of
from gradhook.optim.optimizer import Group


class NAdam(Elementwise):
    """p -= lr * ((1 - mu) / (1 - M) * g + mu' / (1 - M * mu') * m) / (sqrt(v / (1 - beta2 ** step))
    + eps), m and v being running means of g and g * g.

    mu = beta1 * (1 - 0.96 ** (step * momentum_decay) / 2), mu' that of the next step, M the product
    of all mu so far. weight_decay is added to the gradient, or with decoupled_weight_decay shrinks
    p first; maximize: climb. State: "step", "mu_product", "exp_avg", "exp_avg_sq". foreach,
    capturable and differentiable are accepted for PyTorch's sake. Errors: ValueError for values out
    of range. Source: torch.optim.NAdam; Dozat, "Incorporating Nesterov Momentum into Adam" (2016).
    """

    functor = "nadam"
    host_scalars = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_values(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        return {"step": 0.0, "mu_product": 1.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        lr, decay = value_of(group["lr"]), group["momentum_decay"]
        beta1, beta2 = (value_of(b) for b in group["betas"])
        step, product = state["step"]._a.item(), state["mu_product"]._a
        mu, ahead = (beta1 * (1 - 0.5 * 0.96 ** (t * decay)) for t in (step, step + 1))
        product *= mu
        done = product.item()
        return {
            "grad_rate": lr * (1 - mu) / (1 - done),
            "mean_rate": lr * ahead / (1 - done * ahead),
            **shares(group["betas"]),
            "unbias": 1 - beta2**step,
            "eps": group["eps"],
        }

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        mean, square = state
        lerp(xp, mean, g, n.share1, out)
        mean_square(xp, square, g, n.beta2, n.share2, out)
        below = root(xp, xp.divide(square, n.unbias, out=out), n.eps, out)
        step = xp.multiply(g, n.grad_rate)
        step += mean * n.mean_rate
        xp.subtract(a, xp.divide(step, below, out=out), out=a)
