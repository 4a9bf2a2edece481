"""PyTorch's import path of gradhook.nn.dropout."""

from gradhook.nn.dropout import *
