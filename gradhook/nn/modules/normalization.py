"""PyTorch's import path of gradhook.nn.normalization, cross_map and LocalResponseNorm."""

from gradhook.nn.cross_map import *
from gradhook.nn.normalization import *
from gradhook.nn.power_pool import LocalResponseNorm as LocalResponseNorm
