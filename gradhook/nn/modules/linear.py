"""PyTorch's import path of gradhook.nn.linear."""

from gradhook.nn.linear import Identity, Linear

__all__ = ["Identity", "Linear"]
