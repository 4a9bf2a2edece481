"""PyTorch's import path of gradhook.nn.loss, margin_loss and sequence_loss."""

from gradhook.nn.loss import *
from gradhook.nn.margin_loss import *
from gradhook.nn.sequence_loss import *
