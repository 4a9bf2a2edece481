"""PyTorch's import path of gradhook.nn.batchnorm."""

from gradhook.nn.batchnorm import *
