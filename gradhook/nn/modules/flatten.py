"""PyTorch's import path of gradhook.nn.flatten."""

from gradhook.nn.flatten import *
