"""Rows of ops/reduction.py, cumulative.py and order.py."""

from __future__ import annotations

import numpy as np
import scipy.special

from op_cases import apart, case, integers, mask, normal, positive

ZEROS = np.array([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [1.0, -2.0, 0.5]])


def norm(x, ord=2, axis=None, keepdims=False):
    axis = tuple(range(x.ndim)) if axis is None else axis
    return (np.abs(x) ** ord).sum(axis=axis, keepdims=keepdims) ** (1 / ord)


def taken(order, x, axis):
    return np.take_along_axis(x, order, axis), order


ROWS = {
    "expand_reduced": case(
        normal(3),
        shape=(3, 4),
        axis=1,
        ref=lambda x, shape, axis: np.broadcast_to(x[:, None], shape),
    ),
    "sum": [
        case(normal(3, 4), ref=np.sum, complexes=True),
        case(normal(2, 3, 2), axis=(0, -1), keepdims=True, ref=np.sum),
        case(mask(3, 4), axis=0, ref=np.sum),
        case(integers(3).astype("i4"), ref=np.sum),
    ],
    "sum_to": [
        case(normal(2, 3, 4), shape=(3, 1), ref=lambda x, shape: x.sum(axis=(0, 2))[:, None]),
        case(normal(2, 3, 4), shape=(3, 4), ref=lambda x, shape: x.sum(0), complexes=True),
        case(normal(2, 3, 4), shape=(4,), ref=lambda x, shape: x.sum((0, 1))),
        case(normal(2, 3), shape=(), ref=lambda x, shape: x.sum()),
        case(normal(2, 3), shape=(2, 3), ref=lambda x, shape: x),
    ],
    "mean": [
        case(normal(3, 4), ref=np.mean, complexes=True),
        case(normal(3, 4), axis=1, ref=np.mean),
    ],
    "var": [
        case(
            normal(3, 4), correction=1, ref=lambda x, correction: np.var(x, ddof=1), complexes=True
        ),
        case(
            normal(3, 4),
            axis=0,
            correction=0,
            keepdims=True,
            ref=lambda x, axis, correction, keepdims: np.var(x, 0, keepdims=True),
        ),
    ],
    "std": case(
        normal(3, 4), axis=1, ref=lambda x, axis: np.std(x, axis=axis, ddof=1), complexes=True
    ),
    "var_mean": [
        case(normal(3, 4), ref=lambda x: (np.var(x, ddof=1), np.mean(x)), complexes=True),
        case(normal(3, 4), axis=0, ref=lambda x, axis: (np.var(x, 0, ddof=1), np.mean(x, 0))),
    ],
    "std_mean": case(
        normal(3, 4),
        axis=1,
        ref=lambda x, axis: (np.std(x, axis=axis, ddof=1), np.mean(x, axis=axis)),
        complexes=True,
    ),
    "amax": [case(apart(3, 4), ref=np.max), case(apart(3, 4), axis=1, keepdims=True, ref=np.max)],
    "amin": [case(apart(3, 4), ref=np.min), case(apart(3, 4), axis=(0,), ref=np.min)],
    "argmax": [case(apart(3, 4), ref=np.argmax), case(apart(3, 4), axis=1, ref=np.argmax)],
    "argmin": [case(apart(3, 4), ref=np.argmin), case(apart(3, 4), axis=0, ref=np.argmin)],
    "prod": [
        case(normal(3, 2), ref=np.prod, complexes=True),
        case(ZEROS, axis=1, ref=np.prod),
        case(ZEROS, axis=0, keepdims=True, ref=np.prod),
    ],
    "all": [case(mask(3, 4), ref=np.all), case(integers(3, 4), axis=1, ref=np.all)],
    "any": [case(mask(3, 4), ref=np.any), case(integers(3, 4), axis=1, ref=np.any)],
    "count_nonzero": case(integers(3, 4, high=2), axis=1, ref=np.count_nonzero),
    "vector_norm": [
        case(normal(3, 4), ref=norm, complexes=True),
        case(normal(3, 4), ord=3.0, axis=1, ref=norm),
        case(normal(3, 4), ord=1.5, axis=0, keepdims=True, ref=norm),
        case(normal(3, 4), ord=0.5, ref=norm, tolerance=1e-3),
        case(apart(3, 4), ord=1, ref=norm),
        case(
            apart(3, 4) + 0.03,
            ord=float("inf"),
            axis=1,
            ref=lambda x, ord, axis: np.abs(x).max(axis),
        ),
        case(apart(3, 4) + 0.03, ord=float("-inf"), ref=lambda x, ord: np.abs(x).min()),
        case(
            integers(6).astype(float), ord=0, ref=lambda x, ord: (x != 0).sum() * 1.0, constant=(0,)
        ),
    ],
    "cumsum": case(normal(3, 4), axis=-1, ref=np.cumsum, complexes=True),
    "reverse_cumsum": case(normal(4), axis=0, ref=lambda x, axis: np.cumsum(x[::-1])[::-1]),
    "cumprod": [
        case(normal(3, 4), axis=1, ref=np.cumprod, complexes=True),
        case(ZEROS, axis=0, ref=np.cumprod),
    ],
    "logcumsumexp": case(
        normal(5),
        axis=0,
        ref=lambda x, axis: np.array([scipy.special.logsumexp(x[: k + 1]) for k in range(5)]),
    ),
    "max_dim": case(apart(3, 4), axis=1, ref=lambda x, axis: (x.max(axis), x.argmax(axis))),
    "min_dim": case(
        apart(3, 4),
        axis=0,
        keepdims=True,
        ref=lambda x, axis, keepdims: (x.min(0, keepdims=True), x.argmin(0, keepdims=True)),
    ),
    "put_reduced": case(
        normal(3),
        np.array([1, 0, 1]),
        shape=(3, 2),
        axis=1,
        keepdims=False,
        ref=lambda x, i, shape, axis, keepdims: np.eye(2)[i] * x[:, None],
    ),
    "take_reduced": case(
        normal(3, 2),
        np.array([1, 0, 1]),
        axis=1,
        keepdims=False,
        ref=lambda x, i, axis, keepdims: x[np.arange(3), i],
    ),
    "sort": [
        case(apart(3, 4), axis=1, ref=lambda x, axis: taken(np.argsort(x, axis), x, axis)),
        case(
            apart(3, 4),
            axis=0,
            descending=True,
            ref=lambda x, axis, descending: taken(np.argsort(-x, axis), x, axis),
        ),
    ],
    "topk": case(
        apart(3, 4), k=2, axis=1, ref=lambda x, k, axis: taken(np.argsort(-x, axis)[:, :k], x, axis)
    ),
    "kth_smallest": case(
        apart(3, 4),
        k=2,
        axis=1,
        ref=lambda x, k, axis: (np.sort(x, axis)[:, k - 1], np.argsort(x, axis)[:, k - 1]),
    ),
    "median_dim": case(
        apart(3, 5), axis=1, ref=lambda x, axis: (np.median(x, axis), np.argsort(x, axis)[:, 2])
    ),
    "cummax": case(apart(3, 4), axis=1),
    "cummin": case(apart(3, 4), axis=0),
    "searchsorted": case(
        np.sort(positive(5)),
        positive(4),
        right=True,
        ref=lambda e, x, right: np.searchsorted(e, x, side="right"),
    ),
}
