"""PyTorch's import path of gradhook.nn.sparse and gradhook.nn.embedding_bag."""

from gradhook.nn.embedding_bag import *
from gradhook.nn.sparse import *
