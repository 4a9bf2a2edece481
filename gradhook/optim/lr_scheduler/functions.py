"""Schedulers whose factors are functions of the epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradhook.optim.lr_scheduler.base import LRScheduler, saved_function, values
from gradhook.optim.optimizer import Optimizer

Factor = Callable[[int], float]


class _OfFunctions(LRScheduler):
    """Base: lr_lambda is a function of the epoch, or one for each group.

    Errors: ValueError for as many functions as there are no groups.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1
    ) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != count:
                raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "lr_lambdas": [saved_function(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_OfFunctions):
    """base_lr * lr_lambda(epoch).

    Of the functions only callable objects are saved, as their attributes. Errors: ValueError for
    another number of functions than groups. Source: torch.optim.lr_scheduler.LambdaLR.
    """

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_OfFunctions):
    """lr *= lr_lambda(epoch), from the second epoch on.

    Of the functions only callable objects are saved, as their attributes. Errors: ValueError for
    another number of functions than groups, TypeError for what is no function.
    Source: torch.optim.lr_scheduler.MultiplicativeLR.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1
    ) -> None:
        for f in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(f):
                raise TypeError(f"lr_lambda should be a function, but got {type(f).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        if self._is_initial:
            return values(self.optimizer, "lr")
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]
