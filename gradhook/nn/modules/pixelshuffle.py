"""PyTorch's import path of PixelShuffle and PixelUnshuffle in gradhook.nn.shuffle."""

from gradhook.nn.shuffle import PixelShuffle as PixelShuffle
from gradhook.nn.shuffle import PixelUnshuffle as PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
