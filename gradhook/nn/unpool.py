"""MaxUnpool1d, MaxUnpool2d and MaxUnpool3d."""

from __future__ import annotations

from typing import Any, ClassVar

from gradhook.nn import functional as F
from gradhook.nn.conv import as_tuple
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


class _MaxUnpool(Module):
    n: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = as_tuple(kernel_size, self.n)
        self.stride = as_tuple(kernel_size if stride is None else stride, self.n)
        self.padding = as_tuple(padding, self.n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """input, indices: what a MaxPool with return_indices gave; output_size: the plane that was
        pooled, where several fit.
        """
        unpool = getattr(F, f"max_unpool{self.n}d")
        result: Tensor = unpool(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return result

    def extra_repr(self) -> str:
        """The arguments of the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Maxima laid back over one axis, zeros elsewhere. Source: torch.nn.MaxUnpool1d."""

    n = 1


class MaxUnpool2d(_MaxUnpool):
    """Maxima laid back over two axes, zeros elsewhere. Source: torch.nn.MaxUnpool2d."""

    n = 2


class MaxUnpool3d(_MaxUnpool):
    """Maxima laid back over three axes, zeros elsewhere. Source: torch.nn.MaxUnpool3d."""

    n = 3


__all__ = ["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]
