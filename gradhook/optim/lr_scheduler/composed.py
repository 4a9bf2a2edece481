"""Schedulers made of schedulers: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from gradhook.optim.lr_scheduler.base import LRScheduler, put, values
from gradhook.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gradhook.optim.optimizer import Optimizer


class _Composed(LRScheduler):
    """Base: the checks and the state of a scheduler with `_schedulers`."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        """Errors: TypeError for what is no scheduler; ValueError for one that needs a metric or has
        another optimizer.
        """
        name = type(self).__name__
        for k, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {k} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{k} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {k} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(saved)


class SequentialLR(_Composed):
    """Each of the schedulers from its milestone on, the first from the start; a milestone is the
    first epoch of the next one.

    Errors: ValueError for no scheduler, unless there is one milestone fewer than schedulers, for
    ReduceLROnPlateau and schedulers of other optimizers; TypeError for what is no scheduler.
    Source: torch.optim.lr_scheduler.SequentialLR.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler, but got no scheduler."
            )
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            put(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step that every scheduler has done when it was made."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self.recursive_undo(inner)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        self.last_epoch += 1
        k = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[k]
        if k and self._milestones[k - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def _update_lr(self, epoch: int | None = None) -> None:
        """Begin, as one of the schedulers of another (which PyTorch's can't)."""
        self.last_epoch = 0
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._update_lr(0)
        self._last_lr = first.get_last_lr()


class ChainedScheduler(_Composed):
    """All schedulers at each step, one on what the other leaves.

    Errors: ValueError for no scheduler, ReduceLROnPlateau and schedulers of other optimizers;
    TypeError for what is no scheduler. Source: torch.optim.lr_scheduler.ChainedScheduler.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = values(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values(self.optimizer, "lr")

    def _update_lr(self, epoch: int | None = None) -> None:
        """Begin, as one of the schedulers of another (which PyTorch's can't)."""
        for group in self.optimizer.param_groups:
            put(group, "lr", group["initial_lr"])
        for scheduler in self._schedulers:
            if isinstance(scheduler, _Composed):
                scheduler._update_lr(0)
            else:
                scheduler.last_epoch = -1
                scheduler._initial_step()
        self._last_lr = values(self.optimizer, "lr")
