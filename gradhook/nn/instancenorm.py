"""InstanceNorm1d, InstanceNorm2d and InstanceNorm3d."""

from __future__ import annotations

import warnings
from typing import Any

from gradhook.nn import functional as F
from gradhook.nn.batchnorm import _NormBase
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        """input: (batch, num_features, ...) or without batch, floating.

        Errors: ValueError for another number of dimensions or, with weights, of features.
        """
        self._check_input_dim(input)
        batched = input._a.ndim == self.ranks[1]
        self._check_features(input, 1 if batched else 0)
        if batched:
            return self._normalised(input)
        return xp.squeeze(self._normalised(xp.expand_dims(input, axis=0)), axis=0)

    def _check_features(self, input: Tensor, axis: int) -> None:
        found = input._a.shape[axis]
        if found == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={axis} to match num_features "
                f"({self.num_features}), but got: {found}."
            )
        warnings.warn(
            f"input's size at dim={axis} does not match num_features. You can silence this warning "
            "by not passing in num_features, which is not used because affine=False",
            stacklevel=5,
        )

    def _normalised(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            stale = [prefix + name for name in ("running_mean", "running_var")]
            stale = [key for key in stale if key in state_dict]
            if stale:
                names = " and ".join(f'"{key}"' for key in stale)
                kind = type(self).__name__
                rest[-1].append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with "
                    "track_running_stats=False. Remove these keys from state_dict, or, where the "
                    f"statistics are needed, make the {kind} with track_running_stats=True."
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class InstanceNorm1d(_InstanceNorm):
    """Normalise every channel of every sample over its length. input: (batch, channels, length) or
    without batch. Source: torch.nn.InstanceNorm1d, arXiv:1607.08022.
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalise every channel of every sample over its plane. input: (batch, channels, h, w) or
    without batch. Source: torch.nn.InstanceNorm2d.
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalise every channel of every sample over its volume. Source: torch.nn.InstanceNorm3d."""

    ranks = (4, 5)


__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
