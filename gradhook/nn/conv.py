"""Convolution layers over one, two and three axes, and their transposes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from gradhook import creation
from gradhook.nn import functional as F
from gradhook.nn import init
from gradhook.nn.functional.conv import same_padding
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor


def as_tuple(value: Any, n: int) -> tuple[Any, ...]:
    """A number n times; a sequence as it is."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


class ConvNd(Module):
    """What all convolution layers have in common: arguments, parameters, repr."""

    n: ClassVar[int]
    transposed: ClassVar[bool] = False
    weight: Parameter
    bias: Parameter | None

    def _setup(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
            )
        if padding == "same" and any(s != 1 for s in as_tuple(stride, self.n)):
            raise ValueError("padding='same' is not supported for strided convolutions")
        modes = {"zeros", "reflect", "replicate", "circular"}
        if padding_mode not in modes:
            raise ValueError(
                f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'"
            )
        n = self.n
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = as_tuple(kernel_size, n), as_tuple(stride, n)
        self.padding = padding if isinstance(padding, str) else as_tuple(padding, n)
        self.dilation, self.output_padding = as_tuple(dilation, n), as_tuple(output_padding, n)
        self.padding_mode = padding_mode
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *self.kernel_size)
        self.weight = Parameter(creation.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(creation.empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias from U(-k, k), k = sqrt(groups / (in * prod(kernel)))."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.numel() // max(self.weight.shape[0], 1)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        """The arguments that differ from the defaults."""
        ones, zeros = (1,) * self.n, (0,) * self.n
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != zeros:
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != zeros:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(ConvNd):
    def __init__(
        self,
        in_channels: int,
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
        super().__init__()
        self._setup(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, in_channels, *spatial) or without batch."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            pairs = self._pairs()
            input = F.pad(
                input, [p for pair in reversed(pairs) for p in pair], mode=self.padding_mode
            )
            padding = 0
        convolve = getattr(F, f"conv{self.n}d")
        result: Tensor = convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )
        return result

    def _pairs(self) -> tuple[tuple[int, int], ...]:
        if self.padding == "same":
            return same_padding(self.kernel_size, self.dilation)
        if self.padding == "valid":
            return ((0, 0),) * self.n
        return tuple((int(p), int(p)) for p in self.padding)


class Conv1d(_Conv):
    """Cross-correlation over one axis.

    weight: (out, in/groups, kernel). Source: torch.nn.Conv1d.
    """

    n = 1


class Conv2d(_Conv):
    """Cross-correlation over two axes.

    weight: (out, in/groups, kernel, kernel). Source: torch.nn.Conv2d.
    """

    n = 2


class Conv3d(_Conv):
    """Cross-correlation over three axes. Source: torch.nn.Conv3d."""

    n = 3


class _ConvTranspose(ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
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
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._setup(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """input: (batch, in_channels, *spatial) or without batch.

        output_size: which of the possible sizes to make.
        """
        extra = (
            self.output_padding if output_size is None else self._extra(input, tuple(output_size))
        )
        convolve = getattr(F, f"conv_transpose{self.n}d")
        result: Tensor = convolve(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )
        return result

    def _extra(self, input: Tensor, output_size: tuple[int, ...]) -> tuple[int, ...]:
        sizes = output_size[-self.n :]
        spatial = tuple(input.shape)[-self.n :]
        axes = zip(spatial, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [(i - 1) * s - 2 * p + d * (k - 1) + 1 for i, s, p, d, k in axes]
        most = [m + s - 1 for m, s in zip(least, self.stride, strict=True)]
        if any(not m <= size <= top for m, size, top in zip(least, sizes, most, strict=True)):
            raise ValueError(
                f"requested an output size of {list(sizes)}, but valid sizes range from {least} to "
                f"{most} (for an input of {list(spatial)})"
            )
        return tuple(size - m for size, m in zip(sizes, least, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over one axis.

    weight: (in, out/groups, kernel). Source: torch.nn.ConvTranspose1d.
    """

    n = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over two axes. Source: torch.nn.ConvTranspose2d."""

    n = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over three axes. Source: torch.nn.ConvTranspose3d."""

    n = 3


__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
