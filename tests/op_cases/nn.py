"""Rows of ops/nn_*.py; the references are loops over windows, or the formula of the paper."""

from __future__ import annotations

from itertools import product

import numpy as np

from op_cases import apart, case, integers, normal, positive


def windows(spatial, kernel, stride, padding, dilation):
    """(output index, kernel index, input index) of every pair that meets inside the input."""
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation, strict=True)
    ]
    for o in product(*map(range, out)):
        for k in product(*map(range, kernel)):
            at = tuple(
                a * s - p + b * d
                for a, b, s, p, d in zip(o, k, stride, padding, dilation, strict=True)
            )
            if all(0 <= i < n for i, n in zip(at, spatial, strict=True)):
                yield o, k, at, tuple(out)


def each(value, n):
    return tuple(value) if isinstance(value, tuple) else (value,) * n


def convolve(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    n = weight.ndim - 2
    places = list(
        windows(x.shape[2:], weight.shape[2:], each(stride, n), each(padding, n), each(dilation, n))
    )
    out = np.zeros((x.shape[0], weight.shape[0], *places[0][3]), np.result_type(x, weight))
    inside, outside = weight.shape[1], weight.shape[0] // groups
    for o, k, at, _ in places:
        for g in range(groups):
            w = weight[(slice(g * outside, (g + 1) * outside), slice(None), *k)]
            part = x[(slice(None), slice(g * inside, (g + 1) * inside), *at)] @ w.T
            out[(slice(None), slice(g * outside, (g + 1) * outside), *o)] += part
    return out if bias is None else out + bias.reshape(-1, *(1,) * n)


def convolve_input(grad, weight, *, shape, stride=1, padding=0, dilation=1, groups=1):
    """The transpose of convolve, from its matrix."""
    options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    size = int(np.prod(shape))
    columns = [convolve(e.reshape(shape), weight, **options).ravel() for e in np.eye(size)]
    return (np.array(columns) @ grad.ravel()).reshape(shape)


def convolve_weight(grad, x, *, shape, stride=1, padding=0, dilation=1, groups=1):
    options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    size = int(np.prod(shape))
    columns = [convolve(x, e.reshape(shape), **options).ravel() for e in np.eye(size)]
    return (np.array(columns) @ grad.ravel()).reshape(shape)


def pooled_max(x, *, rank, kernel, stride, padding=0, dilation=1, ceil_mode=False):
    places = list(
        windows(
            x.shape[-rank:], kernel, each(stride, rank), each(padding, rank), each(dilation, rank)
        )
    )
    shape = (*x.shape[:-rank], *places[0][3])
    best, where = np.full(shape, -np.inf), np.zeros(shape, np.int64)
    for o, _, at, _ in places:
        value = x[(..., *at)]
        better = value > best[(..., *o)]
        best[(..., *o)] = np.where(better, value, best[(..., *o)])
        index = np.ravel_multi_index(at, x.shape[-rank:])
        where[(..., *o)] = np.where(better, index, where[(..., *o)])
    return best, where


def pooled_mean(
    x, *, rank, kernel, stride, padding=0, ceil_mode=False, include_pad=True, divisor=None
):
    places = list(
        windows(x.shape[-rank:], kernel, each(stride, rank), each(padding, rank), (1,) * rank)
    )
    total = np.zeros((*x.shape[:-rank], *places[0][3]))
    count = np.zeros(places[0][3])
    for o, _, at, _ in places:
        total[(..., *o)] += x[(..., *at)]
        count[o] += 1
    return total / (divisor or (np.prod(kernel) if include_pad else count))


def layer_norm(x, weight=None, bias=None, *, axis, eps):
    y = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def rms_norm(x, weight=None, *, axis, eps):
    y = x / np.sqrt((x**2).mean(axis, keepdims=True) + eps)
    return y * (1 if weight is None else weight)


def nll(x, target, weight=None, *, ignore_index=None, reduction="mean", label_smoothing=0.0):
    """Target by target, as the op's docstring has it; x: log-probabilities."""
    rows = np.moveaxis(x[None] if x.ndim == 1 else x, 1, -1)
    classes = rows.shape[-1]
    weight = np.ones(classes) if weight is None else weight
    losses, shares = [], []
    for row, t in zip(rows.reshape(-1, classes), target.reshape(-1), strict=True):
        own = -weight[t] * row[t] * (1 - label_smoothing)
        spread = -(weight * row).sum() * label_smoothing / classes
        losses.append(0.0 if t == ignore_index else own + spread)
        shares.append(0.0 if t == ignore_index else weight[t])
    if reduction == "none":
        return np.reshape(losses, target.shape)
    return np.asarray(np.sum(losses) / (np.sum(shares) if reduction == "mean" else 1))


def cross_entropy(x, *rest, **options):
    axis = 0 if x.ndim == 1 else 1
    return nll(x - np.log(np.exp(x).sum(axis, keepdims=True)), *rest, **options)


def pad(x, *, pad, value=0):
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    return np.pad(x, pairs, constant_values=value)


X, T = normal(4, 3), np.array([2, 0, 1, 2])
IMAGE, FILTERS = normal(2, 4, 5, 6), normal(6, 2, 2, 3, seed=9)
GEOMETRY = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
GRAD = normal(2, 6, 3, 6, seed=10)
LITTLE, LITTLE_FILTERS = normal(1, 4, 3, 2), normal(4, 2, 2, 2, seed=9)
LITTLE_GRAD = normal(1, 4, 2, 4, seed=10)
SMALL, SMALL_FILTERS = normal(1, 2, 4, 3), normal(2, 1, 2, 2, seed=9)
ROWS_OF = normal(4, 3, seed=11)
INDEX = np.array([[1, 3, 1], [0, 2, 3]])

ROWS = {
    "linear": [
        case(
            normal(5, 3), normal(4, 3, seed=8), normal(4, seed=9), ref=lambda x, w, b: x @ w.T + b
        ),
        case(normal(2, 2, 3), normal(4, 3, seed=8), None, ref=lambda x, w, b: x @ w.T),
        case(normal(3), normal(4, 3, seed=8), normal(4, seed=9), ref=lambda x, w, b: x @ w.T + b),
        case(normal(2, 3), normal(4, 3, seed=8), None, ref=lambda x, w, b: x @ w.T, complexes=True),
    ],
    "linear_input": case(normal(2, 5, 4), normal(4, 3, seed=8), ref=np.matmul, complexes=True),
    "linear_weight": case(
        normal(2, 5, 4),
        normal(2, 5, 3, seed=8),
        ref=lambda g, x: np.einsum("abo,abi->oi", g, x),
        complexes=True,
    ),
    "linear_parameters": case(
        normal(2, 5, 4),
        normal(2, 5, 3, seed=8),
        ref=lambda g, x: (np.einsum("abo,abi->oi", g, x), g.sum((0, 1))),
        complexes=True,
    ),
    "linear_bias": case(normal(2, 5, 4), ref=lambda g: g.sum((0, 1)), complexes=True),
    "convolution": [
        case(IMAGE, FILTERS, normal(6, seed=3), ref=convolve, second=False, **GEOMETRY),  # slow
        case(LITTLE, LITTLE_FILTERS, normal(4, seed=3), ref=convolve, **GEOMETRY),
        case(SMALL, SMALL_FILTERS, normal(2), ref=convolve, groups=2, padding=1),
        case(normal(2, 2, 5), normal(3, 2, 2), None, ref=convolve, stride=2),
        case(normal(1, 1, 2, 3, 2), normal(2, 1, 2, 2, 1), normal(2), ref=convolve),
    ],
    "convolution_input": [
        case(GRAD, FILTERS, ref=convolve_input, shape=IMAGE.shape, second=False, **GEOMETRY),
        case(LITTLE_GRAD, LITTLE_FILTERS, ref=convolve_input, shape=LITTLE.shape, **GEOMETRY),
        case(normal(1, 2, 3, 2), SMALL_FILTERS, ref=convolve_input, shape=SMALL.shape, groups=2),
    ],
    "convolution_weight": [
        case(GRAD, IMAGE, ref=convolve_weight, shape=FILTERS.shape, second=False, **GEOMETRY),
        case(LITTLE_GRAD, LITTLE, ref=convolve_weight, shape=LITTLE_FILTERS.shape, **GEOMETRY),
        case(normal(1, 2, 3, 2), SMALL, ref=convolve_weight, shape=SMALL_FILTERS.shape, groups=2),
    ],
    "max_pool": [
        case(apart(2, 4, 4), rank=2, kernel=(2, 2), stride=(2, 2), ref=pooled_max),
        case(apart(1, 2, 5), rank=1, kernel=(3,), stride=(1,), padding=1, ref=pooled_max),
        case(
            apart(2, 5, 6),
            rank=2,
            kernel=(3, 2),
            stride=(2, 1),
            padding=(1, 0),
            dilation=(1, 2),
            ref=pooled_max,
        ),
    ],
    "plane_gather": case(
        normal(2, 3, 4),
        integers(2, 2, 2, high=12),
        rank=2,
        ref=lambda x, i, rank: np.take_along_axis(x.reshape(2, 12), i.reshape(2, 4), 1).reshape(
            i.shape
        ),
    ),
    "plane_scatter": case(
        normal(2, 2, 2),
        np.array([[[1, 5], [1, 0]], [[3, 3], [3, 2]]]),
        rank=2,
        shape=(2, 2, 3),
        ref=lambda g, i, shape, rank: np.array(
            [np.bincount(i[k].ravel(), g[k].ravel(), 6).reshape(2, 3) for k in range(2)]
        ),
    ),
    "avg_pool": [
        case(normal(2, 4, 4), rank=2, kernel=(2, 2), stride=(2, 2), ref=pooled_mean),
        case(normal(2, 5, 5), rank=2, kernel=(3, 2), stride=(2, 1), padding=1, ref=pooled_mean),
        case(
            normal(1, 5),
            rank=1,
            kernel=(3,),
            stride=(2,),
            padding=1,
            include_pad=False,
            ref=pooled_mean,
        ),
        case(normal(1, 5), rank=1, kernel=(2,), stride=(2,), divisor=3, ref=pooled_mean),
    ],
    "avg_pool_input": [
        case(normal(2, 2, 2), rank=2, kernel=(2, 2), stride=(2, 2), shape=(2, 4, 4)),
        case(
            normal(1, 3),
            rank=1,
            kernel=(3,),
            stride=(2,),
            padding=1,
            shape=(1, 5),
            include_pad=False,
        ),
    ],
    "layer_norm": [
        case(normal(4, 5), positive(5), normal(5), axis=(-1,), eps=1e-3, ref=layer_norm),
        case(normal(4, 5), None, None, axis=(-1,), eps=1e-3, ref=layer_norm),
        case(normal(2, 3, 4), positive(3, 4), None, axis=(-2, -1), eps=1e-3, ref=layer_norm),
    ],
    "running_moments": case(
        normal(4, 3, 2),
        normal(3, seed=8),
        positive(3),
        axis=(0, 2),
        momentum=0.2,
        ref=lambda x, mean, var, axis, momentum: (
            0.8 * mean + 0.2 * x.mean((0, 2)),
            0.8 * var + 0.2 * x.var((0, 2), ddof=1),
        ),
    ),
    "batch_norm": case(
        normal(4, 3, 2), positive(3, 1), normal(3, 1), axis=(0, 2), eps=1e-3, ref=layer_norm
    ),
    "rms_norm": [
        case(normal(4, 5), positive(5), axis=(-1,), eps=1e-3, ref=rms_norm),
        case(normal(4, 5), None, axis=(-1,), eps=1e-3, ref=rms_norm),
    ],
    "squared_error": case(
        normal(3, 4), normal(4, seed=8), ref=lambda x, y: (x - y) ** 2, complexes=False
    ),
    "binary_cross_entropy_terms": case(
        positive(3, 4) / 2.5,
        positive(3, 4, seed=9) / 2.5,
        ref=lambda x, t: -(t * np.log(x) + (1 - t) * np.log1p(-x)),
    ),
    "pick_class": [
        case(X, T, ref=lambda x, t, **_: x[range(4), t]),
        case(normal(3), np.array(2), ref=lambda x, t, **_: x[2]),
        case(X, T, ignore_index=2, ref=lambda x, t, ignore_index: x[range(4), t] * (t != 2)),
        case(normal(2, 3, 4), integers(2, 4, high=3)),
    ],
    "place_class": [
        case(normal(4), T, shape=(4, 3), ref=lambda g, t, shape: np.eye(3)[t] * g[:, None]),
        case(normal(4), T, shape=(4, 3), ignore_index=0),
    ],
    "nll_loss": [
        case(X, T, ref=nll),
        case(X, T, reduction="sum", ref=nll),
        case(X, T, ignore_index=2, ref=nll),
        case(normal(3), np.array(1), ref=nll),
        case(normal(2, 3, 2), integers(2, 2, high=3), ref=nll),
        case(X, T, positive(3), constant=(2,), ignore_index=2, label_smoothing=0.2, ref=nll),
        case(normal(2, 3, 2), integers(2, 2, high=3), reduction="none", ref=nll),
    ],
    "nll_loss_input": [
        case(normal(), T, shape=(4, 3), ref=lambda g, t, shape: -g * np.eye(3)[t] / 4),
        case(normal(), T, shape=(4, 3), ignore_index=2, reduction="sum"),
        case(
            normal(2, 2),
            integers(2, 2, high=3),
            positive(3),
            constant=(2,),
            shape=(2, 3, 2),
            reduction="none",
        ),
        case(
            normal(),
            T,
            positive(3),
            constant=(2,),
            shape=(4, 3),
            ignore_index=0,
            label_smoothing=0.2,
        ),
    ],
    "cross_entropy": [
        case(X, T, ref=cross_entropy),
        case(normal(3), np.array(1), label_smoothing=0.3, ref=cross_entropy),
        case(
            X, T, positive(3), constant=(2,), ignore_index=2, label_smoothing=0.2, ref=cross_entropy
        ),
        case(normal(2, 3, 2), integers(2, 2, high=3), reduction="sum", ref=cross_entropy),
        case(
            normal(2, 3, 2),
            integers(2, 2, high=3),
            positive(3),
            constant=(2,),
            reduction="none",
            label_smoothing=0.1,
            ref=cross_entropy,
        ),
    ],
    "cross_entropy_input": [
        case(
            normal(),
            X,
            T,
            ref=lambda g, x, t: (
                g * (np.exp(x) / np.exp(x).sum(1, keepdims=True) - np.eye(3)[t]) / 4
            ),
        ),
        case(normal(), X, T, positive(3), constant=(3,), ignore_index=2, label_smoothing=0.2),
        case(normal(), X, T, reduction="sum", ignore_index=0),
        case(normal(2, 2), normal(2, 3, 2), integers(2, 2, high=3), reduction="none"),
        case(
            normal(4),
            X,
            T,
            positive(3),
            constant=(3,),
            reduction="none",
            label_smoothing=0.1,
            ignore_index=1,
        ),
        case(normal(), normal(3), np.array(1), label_smoothing=0.3),
    ],
    "mask_ignored": case(
        X, T, ignore_index=2, ref=lambda x, t, ignore_index: x * (t != 2)[:, None]
    ),
    "embedding": [
        case(INDEX, ROWS_OF, ref=lambda i, w: w[i]),
        case(np.array(2), ROWS_OF, ref=lambda i, w: w[i]),
    ],
    "gather_rows": [
        case(ROWS_OF, INDEX, ref=lambda w, i: w[i]),
        case(ROWS_OF, INDEX, skip=1, ref=lambda w, i, skip: w[i] * (i != skip)[..., None]),
        case(normal(4), INDEX, by_frequency=True),
    ],
    "scatter_rows": [
        case(
            normal(2, 3, 3),
            INDEX,
            shape=(4, 3),
            ref=lambda g, i, shape: np.eye(4)[i].reshape(6, 4).T @ g.reshape(6, 3),
        ),
        case(normal(2, 3), INDEX, shape=(4,), skip=1),
        case(normal(2, 3), INDEX, shape=(4,), by_frequency=True),
    ],
    "pad_constant": [
        case(normal(2, 3), pad=(1, 2), value=3.0, ref=pad),
        case(normal(2, 3), pad=(1, 0, 2, 1), ref=pad),
        case(
            normal(4, 5),
            pad=(-1, 2, 0, -2),
            ref=lambda x, pad: np.pad(x[:-2, 1:], ((0, 0), (0, 2))),
        ),
    ],
    "silu": case(normal(3, 4), ref=lambda x: x / (1 + np.exp(-x))),
    "leaky_relu": case(
        apart(3, 4), negative_slope=0.1, ref=lambda x, negative_slope: np.where(x > 0, x, 0.1 * x)
    ),
    "softplus": [
        case(normal(3, 4), ref=lambda x: np.log1p(np.exp(x))),
        case(
            apart(3, 4),
            beta=2.0,
            threshold=1.0,
            ref=lambda x, beta, threshold: np.where(2 * x > 1, x, np.log1p(np.exp(2 * x)) / 2),
        ),
    ],
    "elu": case(apart(3, 4), alpha=1.5, ref=lambda x, alpha: np.where(x > 0, x, 1.5 * np.expm1(x))),
    "hardtanh": case(
        apart(3, 4), low=-1.1, high=1.1, ref=lambda x, low, high: np.clip(x, low, high)
    ),
    "prelu": [
        case(apart(3, 4), positive(4), ref=lambda x, w: np.where(x > 0, x, w * x)),
        case(apart(2, 3, 2), positive(3), ref=lambda x, w: np.where(x > 0, x, w[:, None] * x)),
    ],
}
