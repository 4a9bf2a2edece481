"""Scores in parts of the batch that are computed again in the backward, for less memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradhook import dtypes, modes
from gradhook.autograd import grad
from gradhook.autograd.function import Function
from gradhook.tensor import Tensor

POLICIES = ("auto", "accurate", "balanced", "compact")
FLOATING = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """How linear_cross_entropy cuts the batch. Each part's scores are freed after the forward and
    computed again in the backward, so that never more than one part's are there.

    batch_chunk_size: rows a part. chunking_method, instead: "aspect_ratio", parts whose scores are
    about as large as the whole input, "aspect_ratio:N" (an N-th of it), "auto" (N = 2).
    acc_dtype: float32 for float16 and bfloat16 inputs: the scores, the loss and the sums of
    gradients have it (None: with acc_policy "auto"), which is what PyTorch calls "accurate"; the
    other policies are as accurate here. allow_retain_graph: a graph can always be kept here, and
    differentiated twice.

    Errors: ValueError for other values. Source: torch.nn.LinearCrossEntropyOptions.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in POLICIES:
            raise ValueError(
                f"invalid acc_policy: {self.acc_policy!r}, expected one of {', '.join(POLICIES)}"
            )
        _ = self._factor
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and dtypes.of(self.acc_dtype).name not in FLOATING:
            raise ValueError(
                f"acc_dtype must be one of None, {', '.join(FLOATING)}, got {self.acc_dtype!r}"
            )

    @property
    def _factor(self) -> int | None:
        """The N of the method. Errors: ValueError for another method."""
        if self.chunking_method is None:
            return None
        method = "aspect_ratio:2" if self.chunking_method == "auto" else self.chunking_method
        name, _, factor = method.partition(":")
        factor = factor if ":" in method else "1"
        if name != "aspect_ratio" or not factor.isdigit() or int(factor) < 1:
            raise ValueError(
                f"invalid chunking_method: {self.chunking_method!r}, expected 'auto', "
                "'aspect_ratio', 'aspect_ratio:N' or None"
            )
        return int(factor)

    def rows(self, batch: int, features: int, classes: int) -> int:
        """Rows a part. Errors: ValueError when both choices are given and differ."""
        size = self.batch_chunk_size
        if self._factor is None or (size is not None and self.chunking_method == "auto"):
            return max(1, min(size or batch, batch))
        times = -(-classes // max(features, 1))
        power = 1 << (-(-batch // max(times, 1)) - 1).bit_length()
        found = max(1, min(power // self._factor, batch))
        if size is not None and size != found:
            raise ValueError(
                f"batch_chunk_size (={size}) and chunking_method ('{self.chunking_method}') give "
                f"different chunk sizes ({size} vs {found}); pass only one."
            )
        return found

    def wide(self, dtype: Any) -> Any:
        """The dtype to compute inputs of `dtype` in. Errors: RuntimeError for another acc_dtype."""
        half = dtypes.of(dtype).name in FLOATING[:2]
        if self.acc_dtype is None:
            return dtypes.float32 if half and self.acc_policy == "auto" else dtype
        if dtypes.of(self.acc_dtype).name != "float32" or not half:
            if dtypes.of(self.acc_dtype) is not dtypes.of(dtype):
                raise RuntimeError(
                    "linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, "
                    f"but got {self.acc_dtype!r} acc_dtype and {dtypes.of(dtype)!r} inputs."
                )
        return self.acc_dtype


class Recomputed(Function):
    """function(*tensors), one Tensor, computed again in the backward: nothing between is kept.

    function: of the tensors alone, without randomness.
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], *tensors: Tensor | None) -> Tensor:
        """The value, recorded as one node."""
        ctx.recompute = function
        ctx.save_for_backward(*tensors)
        return function(*tensors)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        """The gradients, themselves recorded where a graph of them is made."""
        recorded, needs = modes.is_grad_enabled(), ctx.needs_input_grad[1:]
        tensors = [
            t if t is None or recorded else t.detach().requires_grad_(need)
            for t, need in zip(ctx.saved_tensors, needs, strict=True)
        ]
        with modes.enable_grad():
            value = ctx.recompute(*tensors)
        wanted = [t for t, need in zip(tensors, needs, strict=True) if need]
        found = iter(grad([value], wanted, [g], create_graph=recorded, allow_unused=True))
        return None, *(next(found) if need else None for need in needs)
