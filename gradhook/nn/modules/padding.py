"""PyTorch's import path of gradhook.nn.padding."""

from gradhook.nn.padding import *
