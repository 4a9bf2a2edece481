"""Learning-rate schedulers. Source of names: torch.optim.lr_scheduler."""

from gradhook.optim.lr_scheduler.base import LRScheduler
from gradhook.optim.lr_scheduler.base import _LRScheduler as _LRScheduler
from gradhook.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from gradhook.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from gradhook.optim.lr_scheduler.cycles import CyclicLR
from gradhook.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from gradhook.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
from gradhook.optim.lr_scheduler.one_cycle import OneCycleLR
from gradhook.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
