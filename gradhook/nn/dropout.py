"""Dropout layers: active in training, the identity in evaluation."""

from __future__ import annotations

from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The probability and whether it writes into its input."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Every element is 0 with probability p in training, else divided by 1 - p.

    Source: torch.nn.Dropout.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Whole channels are 0 with probability p in training. input: (batch, channels, length)."""

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, length) or without batch."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Whole channels are 0 with probability p in training. input: (batch, channels, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, h, w)."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Whole channels are 0 with probability p in training. input: (batch, channels, d, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, d, h, w) or without batch."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of SELU's results. Source: torch.nn.AlphaDropout."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating. As in PyTorch, inplace changes nothing."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels. Source: torch.nn.FeatureAlphaDropout."""

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, ...), floating. As in PyTorch, inplace changes nothing."""
        return F.feature_alpha_dropout(input, self.p, self.training)


__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]
