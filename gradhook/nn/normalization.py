"""LayerNorm, RMSNorm and GroupNorm."""

from __future__ import annotations

from typing import Any

from gradhook import creation
from gradhook.nn import functional as F
from gradhook.nn import init
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor


class _AffineNorm(Module):
    """What normalisations share: a weight, which begins as 1, and a bias, which begins as 0."""

    weight: Parameter | None

    def _make(self, shape: tuple[int, ...], device: Any, dtype: Any, **present: bool) -> None:
        """Register the parameters named, those that are not present as None, and reset them."""
        for name, wanted in present.items():
            made = Parameter(creation.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """weight becomes 1, bias 0."""
        for name, fill in (("weight", init.ones_), ("bias", init.zeros_)):
            parameter = getattr(self, name, None)
            if parameter is not None:
                fill(parameter)


def _shape_of(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_AffineNorm):
    """Normalise over the last axes, of normalized_shape, then times weight plus bias.

    Source: torch.nn.LayerNorm.
    """

    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = {"weight": elementwise_affine, "bias": elementwise_affine and bias}
        self._make(self.normalized_shape, device, dtype, **affine)

    def forward(self, input: Tensor) -> Tensor:
        """input: (..., *normalized_shape), floating."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape, eps, and which parameters there are."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_AffineNorm):
    """x / sqrt(mean(x * x) + eps) * weight over the last axes. Source: torch.nn.RMSNorm."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make(self.normalized_shape, device, dtype, weight=elementwise_affine)

    def forward(self, input: Tensor) -> Tensor:
        """input: (..., *normalized_shape), floating."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape, eps and whether there is a weight."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_AffineNorm):
    """Normalise num_groups groups of channels, then times weight plus bias a channel.

    Source: torch.nn.GroupNorm.
    """

    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make((num_channels,), device, dtype, weight=affine, bias=affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, num_channels, ...), floating."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Groups, channels, eps, and which parameters there are."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]
