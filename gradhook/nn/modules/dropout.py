"""PyTorch's import path of gradhook.nn.dropout."""

from gradhook.nn.dropout import Dropout, Dropout1d, Dropout2d

__all__ = ["Dropout", "Dropout1d", "Dropout2d"]
