"""PyTorch's import path of gradhook.nn.normalization."""

from gradhook.nn.normalization import GroupNorm, LayerNorm, RMSNorm

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]
