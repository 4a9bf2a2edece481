"""PyTorch's import path of gradhook.nn.container and gradhook.nn.parameter_containers."""

from gradhook.nn.container import *
from gradhook.nn.parameter_containers import *
