"""Linear, Bilinear and Identity."""

from __future__ import annotations

import math
from typing import Any

from gradhook import creation
from gradhook.nn import init
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


class Identity(Module):
    """Returns its input; accepts and ignores any constructor arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """input as it is."""
        return input


class Linear(Module):
    """x @ weight.T + bias. weight: (out_features, in_features), bias: (out_features,) or None.

    Both are drawn from U(-k, k), k = 1 / sqrt(in_features). Source: torch.nn.Linear.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(
            creation.empty((out_features, in_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(creation.empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """input: (..., in_features). Result: (..., out_features)."""
        parameters = self._parameters
        try:  # not self.weight: that goes through __getattr__, which costs as much as a small op
            return xp.linear(input, parameters["weight"], parameters["bias"])
        except KeyError:  # a library made weight a plain attribute
            return xp.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and whether there is a bias."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


__all__ = ["Identity", "Linear"]
