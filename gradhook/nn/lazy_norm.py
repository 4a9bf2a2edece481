"""Batch and instance normalisation that learn num_features from their first input."""

from __future__ import annotations

from typing import Any

from gradhook import creation, dtypes
from gradhook.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm, _NormBase
from gradhook.nn.instancenorm import (
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _InstanceNorm,
)
from gradhook.nn.lazy import LazyModuleMixin, materialize
from gradhook.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from gradhook.tensor import Tensor


class _LazyNorm(LazyModuleMixin, _NormBase):
    """weight, bias and running statistics have no shape until the first call."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, present in (("weight", affine), ("bias", affine and bias)):
            if present:
                setattr(self, name, UninitializedParameter(device=device, dtype=dtype))
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = creation.zeros((), dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        """weight becomes 1, bias 0, the statistics start anew, once there are any."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def _features(self, input: Tensor) -> int:
        """The number of features of an input, which has a batch axis."""
        return int(input._a.shape[1])

    def initialize_parameters(self, input: Tensor) -> None:
        """input: of the first call. What was loaded before keeps its values."""
        self._check_input_dim(input)
        names = ("weight", "bias", "running_mean", "running_var")
        found = [t for t in (getattr(self, name) for name in names) if t is not None]
        loaded = [t for t in found if not is_lazy(t)]  # PyTorch leaves 0 features then
        self.num_features = loaded[0].shape[0] if loaded else self._features(input)
        shape = (self.num_features,)
        materialize(self, {**dict.fromkeys(names, shape), "num_batches_tracked": ()})


class _LazyInstanceNorm(_LazyNorm):
    def _features(self, input: Tensor) -> int:
        """Without a batch axis too, where PyTorch takes the next axis and then fails."""
        return int(input._a.shape[1 if input._a.ndim == self.ranks[1] else 0])


class LazyBatchNorm1d(_LazyNorm, _BatchNorm):
    """A BatchNorm1d that learns num_features from its first input.

    Source: torch.nn.LazyBatchNorm1d.
    """

    cls_to_become = BatchNorm1d
    ranks = BatchNorm1d.ranks


class LazyBatchNorm2d(_LazyNorm, _BatchNorm):
    """A BatchNorm2d that learns num_features from its first input.

    Source: torch.nn.LazyBatchNorm2d.
    """

    cls_to_become = BatchNorm2d
    ranks = BatchNorm2d.ranks


class LazyBatchNorm3d(_LazyNorm, _BatchNorm):
    """A BatchNorm3d that learns num_features from its first input.

    Source: torch.nn.LazyBatchNorm3d.
    """

    cls_to_become = BatchNorm3d
    ranks = BatchNorm3d.ranks


class LazyInstanceNorm1d(_LazyInstanceNorm, _InstanceNorm):
    """A InstanceNorm1d that learns num_features from its first input.

    Source: torch.nn.LazyInstanceNorm1d.
    """

    cls_to_become = InstanceNorm1d
    ranks = InstanceNorm1d.ranks


class LazyInstanceNorm2d(_LazyInstanceNorm, _InstanceNorm):
    """A InstanceNorm2d that learns num_features from its first input.

    Source: torch.nn.LazyInstanceNorm2d.
    """

    cls_to_become = InstanceNorm2d
    ranks = InstanceNorm2d.ranks


class LazyInstanceNorm3d(_LazyInstanceNorm, _InstanceNorm):
    """A InstanceNorm3d that learns num_features from its first input.

    Source: torch.nn.LazyInstanceNorm3d.
    """

    cls_to_become = InstanceNorm3d
    ranks = InstanceNorm3d.ranks


__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]
