"""CrossMapLRN2d, the older name of local response normalisation of images."""

from __future__ import annotations

from gradhook.nn import functional as F
from gradhook.nn.power_pool import LocalResponseNorm
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


class CrossMapLRN2d(LocalResponseNorm):
    """x / (k + alpha / size * sum of squares of the channels up to (size - 1) // 2 away) ** beta.

    Source: torch.nn.CrossMapLRN2d, whose running sum never drops the first channel, so that from
    channel (size - 1) // 2 + 1 on every window counts it (its gradient does not); here none does.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, h, w), floating. Errors: ValueError for other dimensions."""
        if input._a.ndim != 4:
            raise ValueError(
                f"CrossMapLRN2d: Expected input to be 4D, got {input._a.ndim}D instead."
            )
        n, channels, h, w = (int(k) for k in input._a.shape)
        half = (self.size - 1) // 2
        squares = xp.reshape(input * input, shape=(n, 1, channels, h * w))
        padded = xp.pad_constant(squares, pad=(0, 0, half, half))
        windows = (2 * half + 1, 1)
        means = F.avg_pool2d(padded, windows, stride=1, divisor_override=self.size)
        scale = xp.reshape(means, shape=(n, channels, h, w)) * self.alpha + self.k
        result: Tensor = input * scale**-self.beta
        return result


__all__ = ["CrossMapLRN2d"]
