"""Pooling layers over one, two and three axes."""

from __future__ import annotations

from typing import Any, ClassVar

from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


class _MaxPool(Module):
    n: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """input: (batch, channels, *spatial) or without batch."""
        pool = getattr(F, f"max_pool{self.n}d")
        return pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        """The arguments of the windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The maximum of windows over one axis. Source: torch.nn.MaxPool1d."""

    n = 1


class MaxPool2d(_MaxPool):
    """The maximum of windows over two axes; return_indices: also where it was.

    Source: torch.nn.MaxPool2d.
    """

    n = 2


class MaxPool3d(_MaxPool):
    """The maximum of windows over three axes. Source: torch.nn.MaxPool3d."""

    n = 3


class AvgPool1d(Module):
    """The mean of windows over one axis. Source: torch.nn.AvgPool1d."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size if isinstance(kernel_size, tuple) else (kernel_size,)
        stride = kernel_size if stride is None else stride
        self.stride = stride if isinstance(stride, tuple) else (stride,)
        self.padding = padding if isinstance(padding, tuple) else (padding,)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, length) or without batch."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """The arguments of the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    n: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, *spatial) or without batch."""
        pool = getattr(F, f"avg_pool{self.n}d")
        result: Tensor = pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return result

    def extra_repr(self) -> str:
        """The arguments of the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of windows over two axes. Source: torch.nn.AvgPool2d."""

    n = 2


class AvgPool3d(_AvgPool):
    """The mean of windows over three axes. Source: torch.nn.AvgPool3d."""

    n = 3


class _AdaptiveAvgPool(Module):
    n: ClassVar[int]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, *spatial) or without batch.

        Result: the same with output_size.
        """
        result: Tensor = getattr(F, f"adaptive_avg_pool{self.n}d")(input, self.output_size)
        return result

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means over one axis in output_size windows that cover it.

    Source: torch.nn.AdaptiveAvgPool1d.
    """

    n = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over two axes in output_size windows that cover them.

    Source: torch.nn.AdaptiveAvgPool2d.
    """

    n = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means over three axes in output_size windows that cover them.

    Source: torch.nn.AdaptiveAvgPool3d.
    """

    n = 3


__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]
