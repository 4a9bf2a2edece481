"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.optim import multi_tensor
from gradhook.optim.checks import check_lr, check_values
from gradhook.optim.optimizer import Group, Optimizer
from gradhook.storage import bump


class SGD(Optimizer):
    """p -= lr * d, where d = grad + weight_decay * p, and with momentum b = momentum * b + (1 -
    dampening) * d.

    nesterov: d + momentum * b instead of b. maximize: climb. State: "momentum_buffer" with
    momentum. foreach, differentiable and fused are accepted for PyTorch's sake. Errors: ValueError
    for values out of range. Source: torch.optim.SGD; Sutskever et al., 2013.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_values(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def update(self, group: Group) -> None:
        """One step of one group: one launch on CuPy, else two array calls a parameter without
        momentum and decay.
        """
        lr, decay = group["lr"], group["weight_decay"]
        momentum, maximize = group["momentum"], group["maximize"]
        dtype = kind = None
        for p in multi_tensor.sgd(self, group):
            slot = p._slot
            if slot is None or slot.grad is None:
                continue
            a, d = p._a, slot.grad._a
            if a.dtype is not dtype or type(a) is not kind:
                dtype, kind = a.dtype, type(a)
                xp, rate = ARRAY_MODULES[kind], self.number(lr, a)
                multiply, subtract = xp.multiply, xp.subtract
            out = self.scratch(a)
            if maximize:
                d = xp.negative(d, out=out)
            if decay:
                decayed = self.scratch(a, 1)
                d = xp.add(xp.multiply(a, self.number(decay, a), out=decayed), d, out=decayed)
            if momentum:
                d = self._with_momentum(p, group, d, out)
            subtract(a, multiply(d, rate, out=out), out=a)
            bump(p)

    def start_buffer(self, p: Any) -> Any:
        """The momentum buffer of a parameter before its first step, uninitialised."""
        a = p._a
        buffer = make(ARRAY_MODULES[type(a)].empty(a.shape, a.dtype))
        self.state[p]["momentum_buffer"] = buffer
        return buffer

    def _with_momentum(self, p: Any, group: Group, d: Any, out: Any) -> Any:
        """Move the momentum buffer, and what to subtract then."""
        state = self.state[p]
        a, xp = p._a, ARRAY_MODULES[type(p._a)]
        momentum = self.number(group["momentum"], a)
        buffer = state.get("momentum_buffer")
        if buffer is None:
            b = xp.array(d)
            state["momentum_buffer"] = make(b)
        else:
            b = buffer._a
            xp.multiply(b, momentum, out=b)
            share = d if not group["dampening"] else d * self.number(1 - group["dampening"], a)
            xp.add(b, share, out=b)
            bump(buffer)
        return d + b * momentum if group["nesterov"] else b
