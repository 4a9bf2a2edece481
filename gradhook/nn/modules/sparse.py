"""PyTorch's import path of gradhook.nn.sparse."""

from gradhook.nn.sparse import *
