"""Rows of ops/signal_convolution.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_cases import case, integers, normal


def full(x: np.ndarray, y: np.ndarray, axes: Any, method: str = "auto") -> np.ndarray:
    """The sum as it is written, over one or two axes that come last."""
    sizes = tuple(x.shape[a] + y.shape[a] - 1 for a in axes)
    lead = np.broadcast_shapes(x.shape[: -len(axes)], y.shape[: -len(axes)])
    found = np.zeros((*lead, *sizes), np.result_type(x, y))
    for j in np.ndindex(*y.shape[-len(axes) :]):
        part = tuple(slice(k, k + n) for k, n in zip(j, x.shape[-len(axes) :], strict=True))
        factor = y[(..., *j)]
        found[(..., *part)] += x * factor.reshape(factor.shape + (1,) * len(axes))
    return found


def valid(z: np.ndarray, y: np.ndarray, axes: Any, method: str = "auto") -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(z, [y.shape[a] for a in axes], axes)
    lead = y.shape[: -len(axes)] + (1,) * len(axes) + y.shape[-len(axes) :]
    return (windows * y.reshape(lead)).sum(tuple(range(-len(axes), 0)))


X, Y = normal(2, 4), normal(2, 3, seed=1)
ROWS = {
    "convolve_full": [
        case(normal(4), normal(3), axes=(0,), method="direct", ref=full, complexes=True),
        case(normal(4), normal(3), axes=(0,), method="fft", ref=full, complexes=True),
        case(X, normal(3, 2), axes=(0, 1), ref=full),
        case(X, Y, axes=(1,), ref=full, complexes=True),
        case(X, normal(1, 3), axes=(1,), ref=full),
        case(integers(4), integers(3), axes=(0,), ref=full),
    ],
    "correlate_valid": [
        case(normal(4), normal(3), axes=(0,), method="direct", ref=valid, complexes=True),
        case(normal(4), normal(3), axes=(0,), method="fft", ref=valid, complexes=True),
        case(normal(3, 4), normal(2, 2), axes=(0, 1), ref=valid),
        case(X, Y, axes=(1,), ref=valid, complexes=True),
        case(X, normal(1, 3), axes=(1,), ref=valid),
    ],
}
