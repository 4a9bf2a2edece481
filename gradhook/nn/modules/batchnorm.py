"""PyTorch's import path of gradhook.nn.batchnorm."""

from gradhook.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]
