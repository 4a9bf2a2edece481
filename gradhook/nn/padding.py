"""Padding layers: by a constant, zeros, reflection, the edge, or around."""

from __future__ import annotations

from typing import Any, ClassVar

from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


class _Pad(Module):
    """padding: one number for all sides, or (before, after) of the last axis, then of the one
    before, ... `axes` of them.
    """

    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"
    padding: tuple[int, ...]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        count = 2 * self.axes
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, ...) with this class's axes at the end, or without batch."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape with this class's axes at the end; negative padding crops."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Padding and value."""
        return f"padding={self.padding}, value={self.value}"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, ...) with this class's axes at the end, or without batch.

        Errors: ValueError for another number of dimensions.
        """
        low = self.axes + 1
        if input._a.ndim not in (low, low + 1):
            raise ValueError(f"expected {low}D or {low + 1}D input (got {input._a.ndim}D input)")
        return super().forward(input)


class ConstantPad1d(_ConstantPad):
    """The last axis padded with value. Source: torch.nn.ConstantPad1d."""

    axes = 1


class ConstantPad2d(_ConstantPad):
    """The last two axes padded with value. Source: torch.nn.ConstantPad2d."""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """The last three axes padded with value. Source: torch.nn.ConstantPad3d."""

    axes = 3


class ZeroPad1d(ConstantPad1d):
    """The last axis padded with zeros. Source: torch.nn.ZeroPad1d."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """The last two axes padded with zeros. Source: torch.nn.ZeroPad2d."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """The last three axes padded with zeros. Source: torch.nn.ZeroPad3d."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ReflectionPad1d(_Pad):
    """The last axis mirrored at the edges. Source: torch.nn.ReflectionPad1d."""

    axes = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """The last two axes mirrored at the edges. Source: torch.nn.ReflectionPad2d."""

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """The last three axes mirrored at the edges. Source: torch.nn.ReflectionPad3d."""

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """The last axis padded with the edges. Source: torch.nn.ReplicationPad1d."""

    axes = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The last two axes padded with the edges. Source: torch.nn.ReplicationPad2d."""

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The last three axes padded with the edges. Source: torch.nn.ReplicationPad3d."""

    axes = 3
    mode = "replicate"


class CircularPad1d(_CircularPad):
    """The last axis continued around. Source: torch.nn.CircularPad1d."""

    axes = 1


class CircularPad2d(_CircularPad):
    """The last two axes continued around. Source: torch.nn.CircularPad2d."""

    axes = 2


class CircularPad3d(_CircularPad):
    """The last three axes continued around. Source: torch.nn.CircularPad3d."""

    axes = 3


__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]
