"""Activation layers that cut small values, and gates."""

from __future__ import annotations

from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


class _Shrink(Module):
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """lambd."""
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """0 where abs(x) <= lambd, x elsewhere. Source: torch.nn.Hardshrink."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd. Source: torch.nn.Softshrink."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.softshrink(input, self.lambd)


class Tanhshrink(Module):
    """x - tanh(x). Source: torch.nn.Tanhshrink."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.tanhshrink(input)


class Threshold(Module):
    """x where x > threshold, value elsewhere. Source: torch.nn.Threshold."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, real."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Threshold and value."""
        tail = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{tail}"


class Hardsigmoid(Module):
    """min(max(x + 3, 0), 6) / 6. Source: torch.nn.Hardsigmoid."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    """x * hardsigmoid(x). Source: torch.nn.Hardswish."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.hardswish(input, self.inplace)


class GLU(Module):
    """a * sigmoid(b), a and b being the halves of input along dim. Source: torch.nn.GLU."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating, of an even size along dim."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


__all__ = [
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Softshrink",
    "Tanhshrink",
    "Threshold",
]
