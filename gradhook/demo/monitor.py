"""Hooks on every layer that keep statistics of gradients and activations on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import gradhook
from gradhook import Tensor, nn
from gradhook.demo.model import title
from gradhook.hooks.handle import RemovableHandle

Numbers = np.ndarray[Any, np.dtype[np.float32]]
STATISTICS = ("norm", "zeros", "non_finite", "mean", "std")


class History(NamedTuple):
    """Statistics of each layer in each training step; arrays of shape (steps, layers), float32.

    norm, zeros, non_finite: of the gradient with respect to the layer's output: its 2-norm, the
    share of its elements that are exactly 0, and how many are inf or nan. mean, std: of the layer's
    output. NaN where nothing was seen.
    """

    norm: Numbers
    zeros: Numbers
    non_finite: Numbers
    mean: Numbers
    std: Numbers


class Monitor:
    """A forward hook and a full backward hook on every leaf module of a model.

    The hooks compute 0-d Tensors where the model runs and read none of them; `end_epoch` moves all
    numbers of an epoch to the host in one copy. names: of the layers; titles: what they are.
    """

    def __init__(self, model: nn.Module) -> None:
        leaves = [(n, m) for n, m in model.named_modules() if not any(m.children())]
        self.names = [name for name, _ in leaves]
        self.titles = [title(module) for _, module in leaves]
        self._absent = gradhook.full((), float("nan"), device=next(model.parameters()).device)
        self._step = self._empty_step()
        self._epoch: list[Tensor] = []
        self._blocks: list[Numbers] = []
        self._handles: list[RemovableHandle] = []
        for k, (_, module) in enumerate(leaves):
            self._watch(k, module)

    def _watch(self, k: int, module: nn.Module) -> None:
        def activation(module: nn.Module, inputs: Any, output: Tensor) -> None:
            if module.training:
                values = output.detach()
                self._step["mean"][k] = values.mean()
                self._step["std"][k] = values.std()

        def gradient(module: nn.Module, grad_input: Any, grad_output: tuple[Tensor, ...]) -> None:
            g = grad_output[0]
            self._step["norm"][k] = (g * g).sum().sqrt()
            self._step["zeros"][k] = 1 - g.count_nonzero().to(g.dtype) / g.numel()
            self._step["non_finite"][k] = g.numel() - g.isfinite().sum().to(g.dtype)

        self._handles.append(module.register_forward_hook(activation))
        self._handles.append(module.register_full_backward_hook(gradient))

    def _empty_step(self) -> dict[str, list[Tensor]]:
        return {name: [self._absent] * len(self.names) for name in STATISTICS}

    def end_step(self) -> None:
        """One training step is over: pack what its hooks saw into one Tensor."""
        rows = [value for name in STATISTICS for value in self._step[name]]
        self._epoch.append(gradhook.stack(rows))
        self._step = self._empty_step()

    def end_epoch(self) -> None:
        """Read the epoch's numbers: one copy from the device."""
        if self._epoch:
            values = gradhook.stack(self._epoch).numpy(force=True)
            self._blocks.append(values.reshape(-1, len(STATISTICS), len(self.names)))
            self._epoch = []

    def history(self) -> History:
        """All steps of the epochs that have ended."""
        if self._blocks:
            values = np.concatenate(self._blocks)
        else:
            values = np.zeros((0, len(STATISTICS), len(self.names)), np.float32)
        return History(*(values[:, k] for k in range(len(STATISTICS))))

    def remove(self) -> None:
        """Take all hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
