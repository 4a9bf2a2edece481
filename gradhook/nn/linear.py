"""Linear, LazyLinear and Identity."""

from __future__ import annotations

import math
from typing import Any

from gradhook import creation
from gradhook.nn import functional as F
from gradhook.nn import init
from gradhook.nn.lazy import LazyModuleMixin, materialize
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter, UninitializedParameter, is_lazy
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


class Bilinear(Module):
    """y_o = x1 @ weight[o] @ x2 + bias_o. weight: (out_features, in1_features, in2_features).

    weight and bias, (out_features,), are drawn from U(-k, k), k = 1 / sqrt(in1_features).
    Source: torch.nn.Bilinear.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(creation.empty(shape, device=device, dtype=dtype))
        made = creation.empty((out_features,), device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", None if made is None else Parameter(made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew. Errors: ValueError unless in1_features > 0."""
        if self.in1_features <= 0:
            raise ValueError(
                f"in1_features must be > 0, but got (in1_features={self.in1_features})"
            )
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """input1: (..., in1_features), input2: (..., in2_features). Result: (..., out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that MultiheadAttention's out_proj has in PyTorch."""


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that learns in_features from its first input; from then on it is a Linear.

    Until then weight and bias are UninitializedParameters of the given dtype, on the given device.
    Source: torch.nn.LazyLinear.
    """

    cls_to_become = Linear
    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, bias=False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once there are any."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """input: (..., in_features), of the first call. What was loaded before keeps its values.

        Errors: AssertionError when a loaded weight has another in_features.
        """
        found = int(input.shape[-1])
        if not is_lazy(self.weight) and found != self.weight.shape[-1]:
            raise AssertionError(
                f"The in_features inferred from input: {found} is not equal to in_features "
                f"from self.weight: {self.weight.shape[-1]}"
            )
        self.in_features = found
        out = self.out_features
        materialize(self, {"weight": (out, found), "bias": (out,)})


__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]
