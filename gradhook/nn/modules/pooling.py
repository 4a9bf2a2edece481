"""PyTorch's import path of gradhook.nn.pooling."""

from gradhook.nn.pooling import *
