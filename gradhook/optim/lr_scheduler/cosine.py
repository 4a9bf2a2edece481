"""Cosine annealing, with and without restarts."""

from __future__ import annotations

import math
from typing import Any

from gradhook.optim.lr_scheduler.base import LRScheduler, values
from gradhook.optim.optimizer import Optimizer


def annealed(high: Any, low: Any, part: float) -> Any:
    """From high (part = 0) to low (part = 1) along half a cosine."""
    return low + (high - low) * (1 + math.cos(math.pi * part)) / 2


class CosineAnnealingLR(LRScheduler):
    """From base_lr to eta_min in T_max epochs along half a cosine, then up again, and so on.

    Each learning rate comes from the one before, so that changes from outside last.
    Source: torch.optim.lr_scheduler.CosineAnnealingLR; arXiv:1608.03983, without its restarts.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at last_epoch; called by step."""
        self._check_called_within_step()
        if self._is_initial:
            return values(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2  # from the bottom, where 0 / 0 stands
            return [
                group["lr"] + (base - self.eta_min) * rise
                for base, group in zip(self.base_lrs, groups, strict=True)
            ]
        now, before = (
            1 + math.cos(math.pi * epoch / self.T_max)
            for epoch in (self.last_epoch, self.last_epoch - 1)
        )
        return [now / before * (g["lr"] - self.eta_min) + self.eta_min for g in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        return [annealed(b, self.eta_min, self.last_epoch / self.T_max) for b in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """From base_lr to eta_min along half a cosine in T_0 epochs, again in T_0 * T_mult, and so on.

    step(epoch) may be given fractions of epochs. Errors: ValueError unless T_0 is a positive and
    T_mult a number >= 1, both int, and eta_min a number; for a negative epoch.
    Source: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts; arXiv:1608.03983.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group, T_cur epochs after a restart; called by step."""
        self._check_called_within_step()
        return [annealed(base, self.eta_min, self.T_cur / self.T_i) for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to this one, which may be a fraction.

        Errors: ValueError for a negative epoch.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._restart(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr)

    def _restart(self, epoch: float) -> None:
        """Set T_i and T_cur to the restart that an epoch follows."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        first, times = self.T_0, self.T_mult
        if epoch < first:
            self.T_i, self.T_cur = first, epoch
        elif times == 1:
            self.T_cur = epoch % first
        else:
            n = int(math.log(epoch / first * (times - 1) + 1, times))
            self.T_cur = epoch - first * (times**n - 1) / (times - 1)
            self.T_i = first * times**n
