"""Averages of a model's weights over its training: stochastic weight averaging and moving averages.

Source of names: torch.optim.swa_utils.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from gradhook import nn
from gradhook.creation import tensor
from gradhook.dtypes import int64
from gradhook.modes import no_grad
from gradhook.nn.batchnorm import _BatchNorm
from gradhook.optim.lr_scheduler.base import LRScheduler, for_each_group
from gradhook.optim.optimizer import Optimizer
from gradhook.tensor import Tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[list[Tensor], list[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The function (average, current, count) -> decay * average + (1 - decay) * current.

    Errors: ValueError unless decay is in [0, 1].
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )

    def ema_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            made: Tensor = decay * average + (1 - decay) * current
            return made

    return ema_update


def get_swa_avg_fn() -> Average:
    """The function (average, current, count) -> the mean of count + 1 models."""

    def swa_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            made: Tensor = average + (current - average) / (num_averaged + 1)
            return made

    return swa_update


def _in_place(update: Average) -> MultiAverage:
    """The same for lists of tensors, written into the averages."""

    def multi_update(averages: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        with no_grad():
            for average, value in zip(averages, current, strict=True):
                average.copy_(update(average, value, num_averaged))

    return multi_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """get_ema_avg_fn for lists of tensors, in place. Errors: ValueError unless decay is in
    [0, 1].
    """
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """get_swa_avg_fn for lists of tensors, in place."""
    return _in_place(get_swa_avg_fn())


class AveragedModel(nn.Module):
    """A copy of a model whose parameters are averages of the model's.

    update_parameters(model) takes in its parameters; the first time they are copied. avg_fn:
    (average, current, count) -> the new average of one tensor; multi_avg_fn: the same for lists of
    tensors of one device and dtype, in place; neither: the mean of all. use_buffers: average the
    buffers, too, else they are copied each time. device: where the copy lives. Attributes: module,
    and the buffer n_averaged, how many models were taken in (0-d int64). The averaging function is
    in no state_dict. Errors: AssertionError for both functions. Source:
    torch.optim.swa_utils.AveragedModel; arXiv:1803.05407.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: nn.Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers
        self._known: tuple[Any, int, int] = (None, 0, 0)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    def _count(self) -> int:
        """n_averaged as a number; read from a device only after somebody else has written it."""
        known, version, count = self._known
        if known is not self.n_averaged or version != known._version:
            count = int(self.n_averaged.item())
        return count

    def update_parameters(self, model: nn.Module) -> None:
        """Take in the parameters that a model of the same structure has now."""
        count = self._count()
        with no_grad():
            self._take_in(count, *self._pairs(model))
            if not self.use_buffers:
                for mine, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.detach().copy_(other.detach())
            self.n_averaged += 1
        self._known = (self.n_averaged, self.n_averaged._version, count + 1)

    def _pairs(self, model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
        """The averages and the model's tensors beside them, on the same device."""
        mine, other = self.module, model
        averages, current = [
            [t.detach() for t in chain(m.parameters(), m.buffers() if self.use_buffers else ())]
            for m in (mine, other)
        ]
        moved = [t.to(a.device) for a, t in zip(averages, current, strict=True)]
        return averages, moved

    def _take_in(self, count: int, averages: list[Tensor], current: list[Tensor]) -> None:
        if count == 0:
            for average, value in zip(averages, current, strict=True):
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in zip(averages, current, strict=True):
                number = self.n_averaged.to(average.device)
                average.copy_(self.avg_fn(average, value, number))
        else:
            groups: dict[Any, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
            for average, value in zip(averages, current, strict=True):
                lists = groups[average.device, average.dtype]
                lists[0].append(average)
                lists[1].append(value)
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for (device, _), lists in groups.items():
                update(*lists, self.n_averaged.to(device))


def update_bn(loader: Iterable[Any], model: nn.Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch normalisations anew, from all batches of a
    loader.

    A batch is a Tensor, or a list or tuple that begins with one; it is moved to `device` first.
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches
    was_training = model.training
    model.train()
    try:
        with no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(x if device is None else x.to(device))
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """From the learning rate of each group to swa_lr in anneal_epochs epochs, then swa_lr.

    swa_lr: a number, or one for each group. anneal_strategy: "cos" or "linear". Errors: ValueError
    for another strategy, for negative anneal_epochs, for a list of another length than there are
    groups. Source: torch.optim.swa_utils.SWALR; arXiv:1803.05407.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for lr, group in zip(
            for_each_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, part: float) -> float:
        """How much of swa_lr there is after this part of the epochs."""
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self) -> list[Any]:
        """The learning rate of each group after the steps so far; called by step."""
        self._check_called_within_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (
            self.anneal_func(max(0, min(1, k / max(1, self.anneal_epochs))))
            for k in (step - 1, step)
        )
        made = []
        for group in self.optimizer.param_groups:
            lr, end = group["lr"], group["swa_lr"]
            start = end if before == 1 else (lr - before * end) / (1 - before)
            made.append(end * now + start * (1 - now))
        return made
