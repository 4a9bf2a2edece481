"""Optimizers. Source of names: torch.optim."""

from gradhook.optim import optimizer as optimizer
from gradhook.optim.adam import Adam
from gradhook.optim.adamw import AdamW
from gradhook.optim.optimizer import Optimizer
from gradhook.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
