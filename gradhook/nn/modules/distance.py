"""PyTorch's import path of gradhook.nn.distance."""

from gradhook.nn.distance import *
