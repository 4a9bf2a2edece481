"""PyTorch's import path of gradhook.nn.rnn, gradhook.nn.rnn_base and gradhook.nn.rnn_cells."""

from gradhook.nn.rnn import *
from gradhook.nn.rnn_base import *
from gradhook.nn.rnn_cells import *
