"""Convolution layers that learn in_channels from their first input."""

from __future__ import annotations

from typing import Any

from gradhook.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvNd,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from gradhook.nn.lazy import LazyModuleMixin, materialize
from gradhook.nn.parameter import UninitializedParameter, is_lazy
from gradhook.tensor import Tensor


class _LazyConvNd(LazyModuleMixin, ConvNd):
    """weight and bias are UninitializedParameters until the first call."""

    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once there are any."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """input: (batch, in_channels, *spatial) or without batch, of the first call.

        Errors: RuntimeError for another number of dimensions, ValueError unless groups divides
        in_channels.
        """
        n = self.n + 1
        if input._a.ndim not in (n, n + 1):
            raise RuntimeError(
                f"Expected {n}D (unbatched) or {n + 1}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {input.shape}"
            )
        self.in_channels = int(input._a.shape[-n])
        if not is_lazy(self.weight):  # loaded before: it says, and PyTorch leaves 0 here
            shape = self.weight.shape
            self.in_channels = shape[0] if self.transposed else shape[1] * self.groups
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        shapes = {"weight": (*channels, *self.kernel_size), "bias": (self.out_channels,)}
        materialize(self, shapes)


class _LazyConv(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        form = (kernel_size, stride, padding, dilation, groups, False, padding_mode)
        super().__init__(0, 0, *form, device, dtype)
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        form = (kernel_size, stride, padding, output_padding, groups, False, dilation)
        super().__init__(0, 0, *form, padding_mode, device, dtype)
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that learns in_channels from its first input. Source: torch.nn.LazyConv1d."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that learns in_channels from its first input. Source: torch.nn.LazyConv2d."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that learns in_channels from its first input. Source: torch.nn.LazyConv3d."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that learns in_channels from its first input.

    Source: torch.nn.LazyConvTranspose1d.
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that learns in_channels from its first input.

    Source: torch.nn.LazyConvTranspose2d.
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that learns in_channels from its first input.

    Source: torch.nn.LazyConvTranspose3d.
    """

    cls_to_become = ConvTranspose3d


__all__ = [
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]
