"""Rows of ops/filtering.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_cases import case, normal

# SciPy's mode -> NumPy's of np.pad
PADDING = {
    "reflect": "symmetric",
    "constant": "constant",
    "nearest": "edge",
    "mirror": "reflect",
    "wrap": "wrap",
}
MODES = tuple(PADDING)


def padded(x: np.ndarray, shape: Any, mode: str, origin: Any) -> np.ndarray:
    """x with all that weights of a shape reach beyond its ends."""
    centers = [n // 2 + o for n, o in zip(shape, origin, strict=True)]
    widths = [(c, n - 1 - c) for n, c in zip(shape, centers, strict=True)]
    return np.pad(x, widths, PADDING[mode])


def windows(x: np.ndarray, shape: Any, mode: str, origin: Any) -> np.ndarray:
    """(*x.shape, *shape): the elements that each output is made of."""
    return np.lib.stride_tricks.sliding_window_view(padded(x, shape, mode, origin), shape)


def correlate(x: np.ndarray, w: np.ndarray, mode: str, origin: Any) -> np.ndarray:
    return np.tensordot(windows(x, w.shape, mode, origin), w, w.ndim)


def of_input(y: np.ndarray, w: np.ndarray, mode: str, origin: Any) -> np.ndarray:
    """The transposed matrix of `correlate`, a column at a time."""
    units = np.eye(y.size).reshape(y.size, *y.shape)
    columns = [(correlate(u, w, mode, origin) * y).sum() for u in units]
    return np.array(columns).reshape(y.shape)


def of_weights(y: np.ndarray, x: np.ndarray, mode: str, origin: Any, shape: Any) -> np.ndarray:
    return np.tensordot(y, windows(x, shape, mode, origin), y.ndim)


X, Y, W = normal(3, 2), normal(3, 2, seed=1), normal(2, 2, seed=2)
ROWS = {
    "filter_correlate": [
        case(X, W, mode=m, origin=(0, 0), ref=correlate, complexes=m == "mirror") for m in MODES
    ]
    + [
        case(X, normal(5, 1, seed=2), mode="reflect", origin=(-1, 0), ref=correlate),
        case(normal(2, 3), normal(6, 1, seed=2), mode="wrap", origin=(2, 0), ref=correlate),
    ],
    "filter_correlate_input": [
        case(Y, W, mode=m, origin=(-1, 0), ref=of_input, complexes=m == "wrap") for m in MODES
    ]
    + [case(normal(2, 3), normal(7, 1), mode="mirror", origin=(-3, 0), ref=of_input)],
    "filter_correlate_weights": [
        case(Y, X, mode=m, origin=(0, 0), shape=(2, 2), ref=of_weights, complexes=m == "nearest")
        for m in MODES
    ],
}
