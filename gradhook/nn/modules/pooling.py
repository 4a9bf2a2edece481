"""PyTorch's import path of gradhook.nn.pooling, power_pool and unpool."""

from gradhook.nn.pooling import *
from gradhook.nn.power_pool import *
from gradhook.nn.unpool import *
