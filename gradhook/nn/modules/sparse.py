"""PyTorch's import path of gradhook.nn.sparse."""

from gradhook.nn.sparse import Embedding

__all__ = ["Embedding"]
