"""Activation layers."""

from __future__ import annotations

from typing import Any

from gradhook import creation
from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor


class _InPlace(Module):
    """An activation whose only option is to write into its input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """inplace=True, or nothing."""
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0). Source: torch.nn.ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, real."""
        return F.relu(input, self.inplace)


class SiLU(_InPlace):
    """x * sigmoid(x). Source: torch.nn.SiLU."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x * tanh(softplus(x)). Source: torch.nn.Mish."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.mish(input, self.inplace)


class Hardtanh(Module):
    """x cut to [min_val, max_val]. Source: torch.nn.Hardtanh."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if not min_val < max_val:
            raise AssertionError("max_val must be larger than min_val")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, real."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The limits."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (
            ", inplace=True" if self.inplace else ""
        )


class ReLU6(Hardtanh):
    """min(max(x, 0), 6). Source: torch.nn.ReLU6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """inplace=True, or nothing."""
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """x where x > 0, negative_slope * x elsewhere. Source: torch.nn.LeakyReLU."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x where x > 0, alpha * (exp(x) - 1) elsewhere. Source: torch.nn.ELU."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """alpha."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(ELU):
    """x where x > 0, alpha * (exp(x / alpha) - 1) elsewhere. Source: torch.nn.CELU."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    """scale * elu(x, alpha), with the numbers that keep mean 0 and variance 1.

    Source: torch.nn.SELU.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.selu(input, self.inplace)


class RReLU(Module):
    """x where x > 0, slope * x elsewhere; slopes are drawn from [lower, upper) in training.

    Source: torch.nn.RReLU.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False):
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The bounds."""
        return f"lower={self.lower}, upper={self.upper}" + (
            ", inplace=True" if self.inplace else ""
        )


class PReLU(Module):
    """x where x > 0, weight * x elsewhere; weight: (num_parameters,), learnt.

    Source: torch.nn.PReLU.
    """

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(
            creation.full((num_parameters,), float(init), device=device, dtype=dtype)
        )

    def reset_parameters(self) -> None:
        """Set the weight to its first value."""
        self.weight.detach().fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, num_parameters, ...), or any shape with one parameter."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of weights."""
        return f"num_parameters={self.num_parameters}"


class GELU(Module):
    """x times the normal distribution function of x; approximate: "none" or "tanh".

    Source: torch.nn.GELU.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The form."""
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """Hyperbolic tangent. Source: torch.nn.Tanh."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape."""
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)). Source: torch.nn.Sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x)). Source: torch.nn.LogSigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + abs(x)). Source: torch.nn.Softsign."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.softsign(input)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta. Source: torch.nn.Softplus."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """beta and threshold."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _OverDim(Module):
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_OverDim):
    """exp(x) over its sum along dim. Source: torch.nn.Softmax."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_OverDim):
    """softmax(-x) along dim. Source: torch.nn.Softmin."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels at every place of a plane. Source: torch.nn.Softmax2d."""

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, channels, h, w) or without batch. Errors: ValueError."""
        if input._a.ndim not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input._a.ndim}D instead"
            )
        return F.softmax(input, -3, _stacklevel=5)


class LogSoftmax(_OverDim):
    """Logarithm of softmax along dim. Source: torch.nn.LogSoftmax."""

    def forward(self, input: Tensor) -> Tensor:
        """input: any shape, floating."""
        return F.log_softmax(input, self.dim, _stacklevel=5)


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "SELU",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softsign",
    "Tanh",
]
