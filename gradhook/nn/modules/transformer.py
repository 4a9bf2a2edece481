"""PyTorch's import path of gradhook.nn.transformer and gradhook.nn.transformer_layers."""

from gradhook.nn.transformer import *
from gradhook.nn.transformer_layers import *
