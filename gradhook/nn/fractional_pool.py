"""FractionalMaxPool2d and FractionalMaxPool3d."""

from __future__ import annotations

from typing import Any, ClassVar

from gradhook.nn import functional as F
from gradhook.nn.module import Module
from gradhook.tensor import Tensor


def _each(value: Any, n: int) -> tuple[Any, ...] | None:
    """A number an axis, None as it is."""
    if value is None:
        return None
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


class _FractionalMaxPool(Module):
    n: ClassVar[int]
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = _each(kernel_size, self.n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = _each(output_size, self.n)
        self.output_ratio = _each(output_ratio, self.n)
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """input: (batch, channels, *spatial) or without batch. Result: the same with the output's
        size, and with return_indices where the maxima were.
        """
        pool = getattr(F, f"fractional_max_pool{self.n}d")
        return pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows at pseudo-random steps over two axes. Errors: ValueError unless one of
    output_size and output_ratio (between 0 and 1) is given. Source: torch.nn.FractionalMaxPool2d.
    """

    n = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows at pseudo-random steps over three axes, as FractionalMaxPool2d."""

    n = 3


__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d"]
