"""ReduceLROnPlateau: a smaller learning rate when a metric no longer gets better."""

from __future__ import annotations

import math
from typing import Any

from gradhook.optim.lr_scheduler.base import (
    LRScheduler,
    checked,
    put,
    values,
    warn_of_epoch,
)
from gradhook.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """lr *= factor after more than `patience` epochs in which the metric did not get better.

    mode: "min" or "max", what is better. threshold: by how much, of the best value
    (threshold_mode="rel") or in itself ("abs"). cooldown: for how many epochs after a reduction
    nothing is counted. min_lr: a bound, or one for each group; eps: a smaller change is none.
    Errors: ValueError for a factor >= 1, an unknown mode, another number of bounds than groups;
    TypeError for what is no Optimizer. Source: torch.optim.lr_scheduler.ReduceLROnPlateau.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        self.optimizer = checked(optimizer)
        count = len(optimizer.param_groups)
        single = not isinstance(min_lr, (list, tuple))
        if not single and len(min_lr) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
        self.default_min_lr = min_lr if single else None
        self.min_lrs = [min_lr] * count if single else list(min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        """Forget the best value and all counts."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        down = self.mode == "min"
        by = -self.threshold if down else self.threshold
        bound = best * (1.0 + by) if self.threshold_mode == "rel" else best + by
        return a < bound if down else a > bound

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Count an epoch by its metric, a number or a 0-d Tensor (which is read).

        epoch: its number (deprecated, it warns).
        """
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values(self.optimizer, "lr")

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"the optimizer has {len(groups)} param groups, and had {len(self.min_lrs)} "
                    "when ReduceLROnPlateau was made; give `min_lrs` a bound for each group"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                put(group, "lr", new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict() returned."""
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
