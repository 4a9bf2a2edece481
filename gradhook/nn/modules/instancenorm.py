"""PyTorch's import path of gradhook.nn.instancenorm and its lazy forms in gradhook.nn.lazy_norm."""

from gradhook.nn.instancenorm import InstanceNorm1d as InstanceNorm1d
from gradhook.nn.instancenorm import InstanceNorm2d as InstanceNorm2d
from gradhook.nn.instancenorm import InstanceNorm3d as InstanceNorm3d
from gradhook.nn.instancenorm import _InstanceNorm as _InstanceNorm
from gradhook.nn.lazy_norm import LazyInstanceNorm1d as LazyInstanceNorm1d
from gradhook.nn.lazy_norm import LazyInstanceNorm2d as LazyInstanceNorm2d
from gradhook.nn.lazy_norm import LazyInstanceNorm3d as LazyInstanceNorm3d

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]
