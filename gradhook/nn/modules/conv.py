"""PyTorch's import path of gradhook.nn.conv."""

from gradhook.nn.conv import *
