"""LRScheduler: the count of steps, the learning rates of the groups, and the state's dict."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import ref

from gradhook.optim.optimizer import Group, Optimizer
from gradhook.tensor import Tensor

_ORDER = "See https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


class LRScheduler:
    """Base class of learning-rate schedulers.

    A subclass defines `get_lr()`, the learning rate of each group of the optimizer at last_epoch,
    and perhaps `_get_closed_form_lr()`, the same from base_lrs only. Made with last_epoch=-1, it
    takes the groups' "lr" as their "initial_lr" and does its first step; with another one, it
    resumes. Attributes: optimizer, base_lrs, last_epoch. A Tensor "lr" is written in place.
    Errors: TypeError for what is no Optimizer; KeyError when a group has no "initial_lr" to resume
    from. Source: torch.optim.lr_scheduler.LRScheduler.
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[Any]
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked(optimizer)
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming "
                    "scheduler with last_epoch >= 0; load the optimizer's state_dict first, or "
                    "leave last_epoch at -1 to begin"
                )
        self.base_lrs: list[Any] = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Count from zero and do the first step."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_last_lr(self) -> list[Any]:
        """The learning rate of each group after the last step; Tensors are copies."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at last_epoch; called by step."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, after the optimizer's step.

        epoch: go there instead, by the closed form where there is one (deprecated, it warns).
        """
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _warn_of_order(self) -> None:
        """Warn when the optimizer has not stepped before this scheduler's first step."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. {_ORDER}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call them in "
                "the opposite order, or the first learning rate of the schedule is skipped. "
                f"{_ORDER}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        closed = getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr if epoch is None or closed is None else closed)

    def _set(self, rates: Callable[[], list[Any]]) -> None:
        """Give every group the learning rate that `rates()` says."""
        self._get_lr_called_within_step = True
        try:
            found = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, found, strict=True):
            put(group, "lr", lr)
        self._last_lr = values(self.optimizer, "lr")

    def _check_called_within_step(self) -> None:
        """Warn when get_lr is called by anybody but step."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    # ---- state -----------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer, by name. Of functions that were passed in only callable
        objects are saved, as their attributes.
        """
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict() returned."""
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """The class's name before PyTorch 2.0."""


# ---- learning rates of groups ----------------------------------------------------------------
def checked(optimizer: Any) -> Any:
    """The optimizer. Errors: TypeError when it is none."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def own(value: Any) -> Any:
    """The value; a copy of a Tensor."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def values(optimizer: Optimizer, name: str) -> list[Any]:
    """An option of every group; Tensors are copied."""
    return [own(group[name]) for group in optimizer.param_groups]


def put(group: Group, name: str, value: Any) -> None:
    """Set an option of a group; a Tensor is written in place."""
    have = group[name]
    if not isinstance(have, Tensor):
        group[name] = value
    elif isinstance(value, Tensor):
        have.detach().copy_(value.detach().reshape(have.shape))
    else:
        have.detach().fill_(value)


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group: the list that was given, or one for all.

    Errors: ValueError for a list of another length.
    """
    count = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)) and len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {count}."
        )
    return [own(v) for v in (value if isinstance(value, (list, tuple)) else [value] * count)]


def saved_function(function: Any) -> dict[str, Any] | None:
    """What a state_dict keeps of a function: the attributes of a callable object, else nothing."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()


def warn_of_epoch() -> None:
    """The warning of step(epoch)."""
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
        "possible. Please use `scheduler.step()` to step the scheduler; with an epoch, the closed "
        "form is used instead of the chainable form, where there is one.",
        UserWarning,
        stacklevel=3,
    )


def _watch_steps(optimizer: Any) -> None:
    """Make the optimizer note, in `_opt_called`, that it has stepped."""
    function: Any
    function, owner = getattr(optimizer.step, "__func__", None), ref(optimizer)
    if function is None or hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return  # watched already, or a function of the user's: the first step warns of that

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        stepped: Any = owner()
        stepped._opt_called = True
        return function(stepped, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # PyTorch's mark
    optimizer.step = step
