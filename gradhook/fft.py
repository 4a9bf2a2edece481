"""Discrete Fourier transforms under PyTorch's names: `gradhook.fft.fft`, `rfft`, `irfftn`,
`fftshift`, `fftfreq`, ... Source: torch.fft.
"""

from __future__ import annotations

from typing import Any

from gradhook import creation, dtypes
from gradhook.functions import table_functions
from gradhook.later import attributes
from gradhook.ops.documentation import sourced
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor


def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the values of fft: 0, 1, ... then the negative ones, each / (n d).

    n: number of points; d: the time between two. Result: (n,), the default dtype without dtype.
    Errors: RuntimeError for a dtype that is neither floating nor complex, and for negative n.
    """
    return _frequencies("fftfreq", n, (n + 1) // 2, n, d, dtype, device, requires_grad)


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the values of rfft: 0, 1, ... n // 2, each / (n d).

    n: number of points; d: the time between two. Result: (n // 2 + 1,), the default dtype without
    dtype. Errors: as fftfreq.
    """
    return _frequencies("rfftfreq", n, n, n // 2 + 1, d, dtype, device, requires_grad)


def _frequencies(
    name: str, n: int, turn: int, count: int, d: float, dtype: Any, device: Any, grad: bool
) -> Tensor:
    """0, 1, ... turn - 1, then turn - n, ...: `count` of them over n d."""
    kind = dtypes.raw(dtype) or dtypes.get_default_dtype().np
    if kind.kind not in "fc":
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    whole = creation.arange(0, count, dtype=dtypes.float64, device=device)
    turned = ops.where(ops.less(whole, turn), whole, ops.subtract(whole, n))
    found = ops.cast(ops.multiply(turned, 1.0 / (n * d) if n else 0.0), dtype=kind)
    return found.requires_grad_() if grad else found


__getattr__, __dir__ = attributes(globals(), table_functions("fft"))
__all__ = sorted([*table_functions("fft"), "fftfreq", "rfftfreq"])
sourced((("fftfreq", fftfreq), ("rfftfreq", rfftfreq)), "fft.")
