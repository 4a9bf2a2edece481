"""PyTorch's import path of gradhook.nn.batchnorm and its lazy forms in gradhook.nn.lazy_norm."""

from gradhook.nn.batchnorm import BatchNorm1d as BatchNorm1d
from gradhook.nn.batchnorm import BatchNorm2d as BatchNorm2d
from gradhook.nn.batchnorm import BatchNorm3d as BatchNorm3d
from gradhook.nn.batchnorm import _BatchNorm as _BatchNorm
from gradhook.nn.lazy_norm import LazyBatchNorm1d as LazyBatchNorm1d
from gradhook.nn.lazy_norm import LazyBatchNorm2d as LazyBatchNorm2d
from gradhook.nn.lazy_norm import LazyBatchNorm3d as LazyBatchNorm3d

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
]
