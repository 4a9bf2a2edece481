"""PyTorch's import path of gradhook.nn.normalization and of LocalResponseNorm."""

from gradhook.nn.normalization import *
from gradhook.nn.power_pool import LocalResponseNorm as LocalResponseNorm
