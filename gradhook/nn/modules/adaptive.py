"""PyTorch's import path of gradhook.nn.adaptive."""

from gradhook.nn.adaptive import *
