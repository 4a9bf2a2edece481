"""PyTorch's import path of gradhook.nn.container."""

from gradhook.nn.container import ModuleDict, ModuleList, Sequential
from gradhook.nn.parameter_containers import ParameterDict, ParameterList

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
