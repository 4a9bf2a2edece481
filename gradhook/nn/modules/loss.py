"""PyTorch's import path of gradhook.nn.loss and gradhook.nn.margin_loss."""

from gradhook.nn.loss import *
from gradhook.nn.margin_loss import *
