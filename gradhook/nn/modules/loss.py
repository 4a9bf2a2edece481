"""PyTorch's import path of gradhook.nn.loss."""

from gradhook.nn.loss import *
