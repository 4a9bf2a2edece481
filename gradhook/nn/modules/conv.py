"""PyTorch's import path of gradhook.nn.conv and gradhook.nn.lazy_conv."""

from gradhook.nn.conv import *
from gradhook.nn.lazy_conv import *
