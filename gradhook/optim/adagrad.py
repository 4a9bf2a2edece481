"""Adagrad."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_lr, check_values
from gradhook.optim.elementwise import Elementwise, root, value_of
from gradhook.optim.optimizer import Group


class Adagrad(Elementwise):
    """p -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(s) + eps), s being the sum of all g * g.

    weight_decay is added to the gradient; maximize: climb. State, made with the optimizer: "step",
    "sum", which starts at initial_accumulator_value. foreach, differentiable and fused are accepted
    for PyTorch's sake. Errors: ValueError for values out of range, RuntimeError for fused together
    with foreach or differentiable. Source: torch.optim.Adagrad; Duchi et al., JMLR 12 (2011).
    """

    functor = "adagrad"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_values(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        if fused and differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if fused and foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        for group in self.param_groups:
            for p in group["params"]:
                self.start_state(p, self.initial(group))

    def initial(self, group: Group) -> dict[str, Any]:
        return {"step": 0.0, "sum": self.defaults["initial_accumulator_value"]}

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        before = state["step"]._a.item() - 1
        rate = value_of(group["lr"]) / (1 + before * group["lr_decay"])
        return {"rate": rate, "eps": group["eps"]}

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        (total,) = state
        xp.add(total, xp.multiply(g, g, out=out), out=total)
        xp.divide(g, root(xp, total, n.eps, out), out=out)
        xp.subtract(a, xp.multiply(out, n.rate, out=out), out=a)
