"""LPPool1d-3d, AdaptiveMaxPool1d-3d and LocalResponseNorm."""

from __future__ import annotations

from typing import Any, ClassVar

from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


class _LPPool(Module):
    n: ClassVar[int]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, *spatial) or without batch."""
        pool = getattr(F, f"lp_pool{self.n}d")
        result: Tensor = pool(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )
        return result

    def extra_repr(self) -> str:
        """The norm and the arguments of the windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norm of windows over one axis. Source: torch.nn.LPPool1d."""

    n = 1


class LPPool2d(_LPPool):
    """The p-norm of windows over two axes. Source: torch.nn.LPPool2d."""

    n = 2


class LPPool3d(_LPPool):
    """The p-norm of windows over three axes. Source: torch.nn.LPPool3d."""

    n = 3


class _AdaptiveMaxPool(Module):
    n: ClassVar[int]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """input: (batch, channels, *spatial) or without batch. Result: the same with output_size,
        and with return_indices where the maxima were.
        """
        pool = getattr(F, f"adaptive_max_pool{self.n}d")
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima over one axis in windows that cover it. Source: torch.nn.AdaptiveMaxPool1d."""

    n = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima over two axes in windows that cover them. Source: torch.nn.AdaptiveMaxPool2d."""

    n = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Maxima over three axes in windows that cover them. Source: torch.nn.AdaptiveMaxPool3d."""

    n = 3


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares over `size` channels) ** beta.

    Source: torch.nn.LocalResponseNorm.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, ...), floating."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


__all__ = [
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LocalResponseNorm",
]
