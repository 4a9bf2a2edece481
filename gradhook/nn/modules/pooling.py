"""PyTorch's import path of gradhook.nn.pooling, fractional_pool, power_pool and unpool."""

from gradhook.nn.fractional_pool import *
from gradhook.nn.pooling import *
from gradhook.nn.power_pool import *
from gradhook.nn.unpool import *
