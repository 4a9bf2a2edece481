"""PyTorch's import path of gradhook.nn.fold."""

from gradhook.nn.fold import *
