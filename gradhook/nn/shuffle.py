"""ChannelShuffle, PixelShuffle and PixelUnshuffle."""

from __future__ import annotations

from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


class ChannelShuffle(Module):
    """The channels of `groups` groups dealt out in turn. Source: torch.nn.ChannelShuffle."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, ...)."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class PixelShuffle(Module):
    """(..., C * r * r, H, W) as (..., C, H * r, W * r). Source: torch.nn.PixelShuffle."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """input: (..., C * r * r, H, W), r being upscale_factor."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(..., C, H * r, W * r) as (..., C * r * r, H, W). Source: torch.nn.PixelUnshuffle."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """input: (..., C, H * r, W * r), r being downscale_factor."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]
