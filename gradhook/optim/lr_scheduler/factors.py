"""Schedulers that multiply every learning rate by one factor an epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gradhook.optim.lr_scheduler.base import LRScheduler, values
from gradhook.optim.optimizer import Optimizer


class FactorLR(LRScheduler):
    """Base: lr *= _change() at each epoch, which comes to base_lr * _product()."""

    def _change(self) -> float | None:
        """What the learning rates are multiplied by at last_epoch; None: they stay."""
        raise NotImplementedError(f"{type(self).__name__} has no _change()")

    def _product(self) -> float:
        """The product of all factors up to last_epoch."""
        raise NotImplementedError(f"{type(self).__name__} has no _product()")

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at last_epoch; called by step."""
        self._check_called_within_step()
        factor = self._change()
        if factor is None:
            return values(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self._product()
        return [base * factor for base in self.base_lrs]


class StepLR(FactorLR):
    """Multiply by gamma every step_size epochs. Source: torch.optim.lr_scheduler.StepLR."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else None

    def _product(self) -> float:
        return float(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(FactorLR):
    """Multiply by gamma at each of the milestones (epochs), as often as one is listed.

    Source: torch.optim.lr_scheduler.MultiStepLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        times = self.milestones.get(self.last_epoch)
        return None if times is None else self.gamma**times

    def _product(self) -> float:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return float(self.gamma**passed)


class ExponentialLR(FactorLR):
    """Multiply by gamma every epoch. Source: torch.optim.lr_scheduler.ExponentialLR."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        return None if self._is_initial else self.gamma

    def _product(self) -> float:
        return float(self.gamma**self.last_epoch)


class ConstantLR(FactorLR):
    """factor times the learning rate for total_iters epochs, then the learning rate itself.

    Errors: ValueError unless factor is in [0, 1]. Source: torch.optim.lr_scheduler.ConstantLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _product(self) -> float:
        return self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)


class LinearLR(FactorLR):
    """A factor that goes from start_factor to end_factor in total_iters epochs, in a line.

    Errors: ValueError unless start_factor is in (0, 1] and end_factor in [0, 1].
    Source: torch.optim.lr_scheduler.LinearLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _product(self) -> float:
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters


class PolynomialLR(FactorLR):
    """(1 - epoch / total_iters) ** power of the learning rate, and zero from total_iters on.

    Source: torch.optim.lr_scheduler.PolynomialLR.
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch: int) -> float:
        return 1.0 - epoch / self.total_iters

    def _change(self) -> float | None:
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        changed = self._left(self.last_epoch) / self._left(self.last_epoch - 1)
        return float(changed**self.power)

    def _product(self) -> float:
        return float(self._left(min(self.total_iters, self.last_epoch)) ** self.power)
