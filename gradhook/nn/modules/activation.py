"""PyTorch's import path of gradhook.nn.activation, shrinkage and multihead_attention."""

from gradhook.nn.activation import *
from gradhook.nn.multihead_attention import *
from gradhook.nn.shrinkage import *
