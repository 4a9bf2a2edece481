"""Rprop: steps by the sign of the gradient only."""

from __future__ import annotations

from typing import Any

from gradhook.optim.checks import check_lr
from gradhook.optim.elementwise import Elementwise, value_of
from gradhook.optim.optimizer import Group


class Rprop(Elementwise):
    """p -= sign(g) * s, an element's own step size s being multiplied by etas[1] while the sign of
    its gradient stays, by etas[0] where it turns, and then clipped to step_sizes.

    Where the sign turns, the element stays and its gradient counts as zero in the next step.
    maximize: climb. State: "step", "prev" (the gradient before), "step_size", which starts at lr.
    foreach, capturable and differentiable are accepted for PyTorch's sake. Errors: ValueError for
    values out of range. Source: torch.optim.Rprop; Riedmiller and Braun (1993).
    """

    functor = "rprop"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def initial(self, group: Group) -> dict[str, Any]:
        return {"step": 0.0, "prev": 0.0, "step_size": value_of(group["lr"])}

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        return {"shrink": shrink, "grow": grow, "least": least, "most": most}

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        before, size = state
        turn = xp.multiply(g, before, out=out)
        turned = turn < 0
        factor = xp.where(turned, n.shrink, xp.where(turn > 0, n.grow, turn + 1))
        xp.multiply(size, factor, out=size)
        xp.clip(size, n.least, n.most, out=size)
        before[...] = xp.where(turned, xp.zeros((), a.dtype), g)
        xp.multiply(xp.sign(before, out=out), size, out=out)
        xp.subtract(a, out, out=a)
