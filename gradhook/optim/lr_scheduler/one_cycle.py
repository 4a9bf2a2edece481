"""OneCycleLR: one cycle over the whole training."""

from __future__ import annotations

from typing import Any

from gradhook.optim.lr_scheduler.base import checked, for_each_group
from gradhook.optim.lr_scheduler.cosine import annealed
from gradhook.optim.lr_scheduler.cycles import MomentumCycle
from gradhook.optim.optimizer import Optimizer

_NAMES = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")


class OneCycleLR(MomentumCycle):
    """From max_lr / div_factor up to max_lr in pct_start of the steps, then down to that divided by
    final_div_factor.

    total_steps, or epochs and steps_per_epoch, say how many steps there are. anneal_strategy: "cos"
    or "linear". three_phase: down to the start in as many steps as up, and only then to the end.
    cycle_momentum: the momentum goes the other way, between max_momentum and base_momentum. max_lr
    and the momenta may be lists, one for each group. Errors: ValueError for arguments of other
    kinds, lists of another length than there are groups, an optimizer without momentum, and in step
    after the last one. Source: torch.optim.lr_scheduler.OneCycleLR; arXiv:1708.07120.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked(optimizer)
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        tops = for_each_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for top, group in zip(tops, optimizer.param_groups, strict=True):
                start = top / div_factor
                group.update(initial_lr=start, max_lr=top, min_lr=start / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return annealed(start, end, part)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at last_epoch; called by step. Sets the momentum, too.

        Errors: ValueError after the last step.
        """
        self._check_called_within_step()
        step, phases = self.last_epoch, self._schedule_phases
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        k = next((k for k, p in enumerate(phases) if step <= p["end_step"]), len(phases) - 1)
        phase, start = phases[k], phases[k - 1]["end_step"] if k else 0.0
        part = (step - start) / (phase["end_step"] - start)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._put_momentum(group, self._between(*ends, part))
        return [self._between(g[phase["start_lr"]], g[phase["end_lr"]], part) for g in groups]


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """How many steps there are. Errors: ValueError for what says no positive number."""
    if total_steps is not None:
        return _positive("total_steps", total_steps)
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    return _positive("epochs", epochs) * _positive("steps_per_epoch", steps_per_epoch)


def _positive(name: str, value: int) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


def _phases(total: int, pct_start: float, three: bool) -> list[dict[str, Any]]:
    """The phases: the last step of each, and the group's options it goes between."""
    up = float(pct_start * total) - 1
    rows: list[tuple[Any, ...]] = [
        (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
        (total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
    ]
    if three:
        down = float(2 * pct_start * total) - 2
        rows[1:] = [
            (down, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
            (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        ]
    return [dict(zip(_NAMES, row, strict=True)) for row in rows]
