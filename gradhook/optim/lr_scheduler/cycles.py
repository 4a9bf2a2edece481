"""Cycles: the learning rate goes up and down while the momentum goes down and up."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gradhook.optim.lr_scheduler.base import (
    LRScheduler,
    checked,
    for_each_group,
    put,
    saved_function,
)
from gradhook.optim.optimizer import Group, Optimizer


class MomentumCycle(LRScheduler):
    """Base: the momentum, or the first of the betas, between base_momentum and max_momentum."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, base: Any, most: Any, begin: bool) -> tuple[list[Any], list[Any]]:
        """The lower and the upper momentum of each group; begin: give it the upper one.

        Errors: ValueError when the optimizer has neither momentum nor betas.
        """
        optimizer = self.optimizer
        if not {"momentum", "betas"} & set(optimizer.defaults):
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lower = for_each_group("base_momentum", optimizer, base)
        upper = for_each_group("max_momentum", optimizer, most)
        if begin:
            for group, low, high in zip(optimizer.param_groups, lower, upper, strict=True):
                self._put_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return lower, upper

    def _put_momentum(self, group: Group, momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(MomentumCycle):
    """From base_lr to max_lr in step_size_up steps and back in step_size_down, again and again.

    mode: "triangular"; "triangular2", each cycle half as high; "exp_range", gamma ** step as high;
    or scale_fn, the height as a function of the cycle or, with scale_mode="iterations", of the
    step. cycle_momentum: the momentum goes the other way, between max_momentum and base_momentum.
    base_lr, max_lr and the momenta may be lists, one for each group. Errors: ValueError for an
    unknown mode, lists of another length than there are groups, an optimizer without momentum.
    Source: torch.optim.lr_scheduler.CyclicLR; arXiv:1506.01186.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked(optimizer)
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                put(group, "lr", lr)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(
                base_momentum, max_momentum, last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
        functions: dict[str, Callable[[float], float]] = {
            "triangular": _whole,
            "triangular2": _halved,
            "exp_range": partial(pow, self.gamma),
        }
        self._scale_fn_ref = functions[self.mode]

    def scale_fn(self, x: float) -> float:
        """The height of the cycle x, or of the step x."""
        custom = self._scale_fn_custom
        return self._scale_fn_ref(x) if custom is None else custom(x)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at last_epoch; called by step. Sets the momentum, too."""
        self._check_called_within_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        part = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            for group, low, high in zip(
                groups, self.base_momentums, self.max_momentums, strict=True
            ):
                self._put_momentum(group, high - (high - low) * part * height)
        return [
            low + (high - low) * part * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        custom = self._scale_fn_custom
        return {**state, "_scale_fn_custom": None if custom is None else saved_function(custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        saved = state_dict["_scale_fn_custom"]
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._init_scale_fn()


def _whole(cycle: float) -> float:
    return 1.0


def _halved(cycle: float) -> float:
    return float(1 / (2.0 ** (cycle - 1)))
