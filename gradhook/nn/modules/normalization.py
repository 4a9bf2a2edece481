"""PyTorch's import path of gradhook.nn.normalization."""

from gradhook.nn.normalization import *
