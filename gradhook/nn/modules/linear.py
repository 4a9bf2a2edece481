"""PyTorch's import path of gradhook.nn.linear."""

from gradhook.nn.linear import *
from gradhook.nn.linear import (
    NonDynamicallyQuantizableLinear as NonDynamicallyQuantizableLinear,
)
