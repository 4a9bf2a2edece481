"""BatchNorm1d, BatchNorm2d and BatchNorm3d."""

from __future__ import annotations

from typing import Any, ClassVar

from gradhook import creation, dtypes
from gradhook.nn import functional as F
from gradhook.nn import init
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor


class _NormBase(Module):
    """Parameters and running statistics of one entry a feature."""

    _version = 2
    ranks: ClassVar[tuple[int, ...]]
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        for name, present in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(creation.empty(shape, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, made)
        track = track_running_stats
        self.register_buffer(
            "running_mean", creation.zeros(shape, device=device, dtype=dtype) if track else None
        )
        self.register_buffer(
            "running_var", creation.ones(shape, device=device, dtype=dtype) if track else None
        )
        counter = creation.zeros((), dtype=dtypes.int64, device=device) if track else None
        self.register_buffer("num_batches_tracked", counter)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if (
            self.running_mean is not None
            and self.running_var is not None
            and self.num_batches_tracked is not None
        ):
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """weight becomes 1, bias 0, the statistics start anew."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            expected = " or ".join(f"{n}D" for n in self.ranks)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = (
                creation.zeros((), dtype=dtypes.int64)
                if self.num_batches_tracked is None
                else self.num_batches_tracked
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        """Features, eps, momentum, and which parameters and statistics there are."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, num_features, ...), floating."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalise every feature over the batch.

    input: (batch, features) or with length. Source: torch.nn.BatchNorm1d.
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalise every channel over batch and plane.

    input: (batch, channels, h, w). Source: torch.nn.BatchNorm2d.
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalise every channel over batch and volume. Source: torch.nn.BatchNorm3d."""

    ranks = (5,)


__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]
