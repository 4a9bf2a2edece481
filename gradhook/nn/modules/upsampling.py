"""PyTorch's import path of gradhook.nn.upsampling."""

from gradhook.nn.upsampling import *
