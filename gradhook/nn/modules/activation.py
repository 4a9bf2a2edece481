"""PyTorch's import path of gradhook.nn.activation."""

from gradhook.nn.activation import *
