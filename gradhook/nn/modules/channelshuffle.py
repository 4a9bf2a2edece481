"""PyTorch's import path of ChannelShuffle in gradhook.nn.shuffle."""

from gradhook.nn.shuffle import ChannelShuffle as ChannelShuffle

__all__ = ["ChannelShuffle"]
