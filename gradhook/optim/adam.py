"""Adam, with AMSGrad and decoupled weight decay as options."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.optim import multi_tensor
from gradhook.optim.optimizer import Group, Optimizer, check_lr
from gradhook.storage import bump
from gradhook.tensor import Tensor


def check_betas(betas: Any, foreach: bool | None = None, capturable: bool = False) -> None:
    """Errors: ValueError unless both are in [0, 1), and both floats or both 1-element Tensors."""
    floats = [isinstance(b, (int, float)) for b in betas]
    tensors = [isinstance(b, Tensor) for b in betas]
    if not (all(floats) or all(tensors)):
        raise ValueError("betas must be either both floats or both Tensors")
    for k, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            if not capturable and foreach:
                raise ValueError(
                    f"betas[{k}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{k}] must be 1-element")
        elif not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {beta}")


class Adam(Optimizer):
    """p -= lr * m̂ / (sqrt(v̂) + eps), m and v being running means of the gradient and its square.

    m̂ = m / (1 - beta1 ** step), v̂ = v / (1 - beta2 ** step). weight_decay is added to the
    gradient, or with decoupled_weight_decay shrinks p first. amsgrad: the largest v so far.
    maximize: climb. State: "step" (0-d float32), "exp_avg", "exp_avg_sq" and with amsgrad
    "max_exp_avg_sq". foreach, capturable, differentiable and fused are accepted for PyTorch's sake.
    Errors: ValueError for values out of range. Source: torch.optim.Adam; arXiv:1412.6980.
    """

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
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas, foreach, capturable)
        if not 0.0 <= weight_decay:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
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

    def update(self, group: Group) -> None:
        """One step of one group: one launch on CuPy, else thirteen array calls a parameter."""
        lr, decay, eps = group["lr"], group["weight_decay"], group["eps"]
        beta1, beta2 = (float(b) for b in group["betas"])
        for p in multi_tensor.adam(self, group):
            slot = p._slot
            if slot is None or slot.grad is None:
                continue
            a, g = p._a, slot.grad._a
            xp = ARRAY_MODULES[type(a)]
            state = self.state[p] or self.start_state(p, group)
            out = self.scratch(a)
            if group["maximize"]:
                g = -g
            if decay and group["decoupled_weight_decay"]:
                rate = lr._a.astype(a.dtype) if isinstance(lr, Tensor) else lr
                xp.multiply(a, 1 - rate * decay, out=a)
            elif decay:
                g = g + a * self.number(decay, a)
            step = state["step"]
            step._a += 1
            count = float(step._a)
            m, v = state["exp_avg"]._a, state["exp_avg_sq"]._a
            xp.subtract(g, m, out=out)
            xp.multiply(out, self.number(1 - beta1, a), out=out)
            xp.add(m, out, out=m)
            xp.multiply(v, self.number(beta2, a), out=v)
            xp.multiply(g, g.conj() if a.dtype.kind == "c" else g, out=out)
            xp.multiply(out, self.number(1 - beta2, a), out=out)
            xp.add(v, out, out=v)
            if group["amsgrad"]:
                top = state["max_exp_avg_sq"]._a
                v = xp.maximum(top, v, out=top)
            root = (1 - beta2**count) ** 0.5
            xp.sqrt(v, out=out)
            out += eps * root
            xp.divide(m, out, out=out)
            scale = root / (1 - beta1**count)
            out *= lr._a.astype(a.dtype) * scale if isinstance(lr, Tensor) else lr * scale
            xp.subtract(a, out, out=a)
            bump(p)
            bump(state["exp_avg"])
            bump(state["exp_avg_sq"])

    def start_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        xp = ARRAY_MODULES[type(p._a)]
        state: dict[str, Any] = self.state[p]
        state["step"] = make(np.zeros((), np.float32))
        for name in ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ())):
            state[name] = make(xp.zeros_like(p._a))
        return state
