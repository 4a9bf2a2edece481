"""ASGD: gradient descent whose iterates are averaged."""

from __future__ import annotations

from typing import Any

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.optim.checks import check_lr, check_values
from gradhook.optim.elementwise import Elementwise, value_of
from gradhook.optim.optimizer import Group


class ASGD(Elementwise):
    """p = (1 - lambd * eta) * p - eta * g, and their average ax += mu * (p - ax).

    eta starts at lr and is lr / (1 + lambd * lr * step) ** alpha after each step; mu = 1 / max(1,
    step - t0), so averaging begins after t0 steps. weight_decay is added to the gradient; maximize:
    climb. State: "step", "eta", "mu", "ax" (the average; PyTorch's users copy it into the
    parameters). foreach, capturable and differentiable are accepted for PyTorch's sake. Errors:
    ValueError for values out of range. Source: torch.optim.ASGD; Polyak and Juditsky (1992).
    """

    functor = "asgd"
    host_scalars = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_values(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        return {"step": 0.0, "eta": value_of(group["lr"]), "mu": 1.0, "ax": 0.0}

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        lr, lambd = value_of(group["lr"]), group["lambd"]
        step, eta, mu = state["step"]._a.item(), value_of(state["eta"]), state["mu"]._a.item()
        following = lr / (1 + lambd * lr * step) ** group["alpha"]
        if backend.is_cupy(following):  # a learning rate on the device is not read
            state["eta"] = make(following)
        else:
            state["eta"]._a[...] = following
        state["mu"]._a[...] = 1 / max(1, step - group["t0"])
        return {"keep": 1 - lambd * eta, "shrinks": True, "rate": eta, "mu": mu}

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        (average,) = state
        xp.subtract(a, xp.multiply(g, n.rate, out=out), out=a)
        if n.mu == 1:
            average[...] = a
        else:
            xp.multiply(xp.subtract(a, average, out=out), n.mu, out=out)
            xp.add(average, out, out=average)
