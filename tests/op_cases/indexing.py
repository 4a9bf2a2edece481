"""Rows of ops/indexing.py, scatter.py and scatter_reduce.py."""

from __future__ import annotations

import numpy as np

from op_cases import apart, case, mask, normal

X = normal(3, 4)
I = np.array([2, 0, 2])  # noqa: E741 - an index with a repetition
INDEX = np.array([[0, 2, 1, 1], [2, 2, 0, 1]])
SLICES = (slice(None), slice(0, 3, 2))
PICKED = (I, slice(1, None))


def unslice(x, index, shape):
    result = np.zeros(shape)
    result[index] = x
    return result


def put(x, index, shape):
    result = np.zeros(shape)
    np.add.at(result, index, x)
    return result


def index_put(x, value, index, accumulate=False):
    result = x.copy()
    if accumulate:
        np.add.at(result, index, value)
    else:
        result[index] = value
    return result


def scatter(x, index, src, axis=0, how=None):
    result = x.copy()
    for at in np.ndindex(index.shape):
        place = (*at[:axis], index[at], *at[axis + 1 :])
        result[place] = src[at] if how is None else how(result[place], src[at])
    return result


def reduced(how):
    return lambda x, index, src, axis, reduce: scatter(x, index, src, axis, how)


ROWS = {
    "slice_view": case(X, index=SLICES, ref=lambda x, index: x[index], complexes=True),
    "unslice": case(normal(3, 2), index=SLICES, shape=(3, 4), ref=unslice),
    "take_index": [
        case(X, index=PICKED, ref=lambda x, index: x[index], complexes=True),
        case(X, index=(mask(3, 4),), ref=lambda x, index: x[index]),
    ],
    "put_index": case(normal(3, 3), index=PICKED, shape=(3, 4), ref=put),
    "index_put": [
        case(X, normal(2, 4, seed=8), index=(np.array([2, 0]),), ref=index_put),
        case(X, normal(4, seed=8), index=(I,), accumulate=True, ref=index_put),
        case(X, np.array(2.0), index=(mask(3, 4),), ref=index_put),
    ],
    "clear_index": case(X, index=(I,), ref=lambda x, index: index_put(x, 0, index)),
    "index_select": case(X, I, axis=-1, ref=lambda x, i, axis: x[:, i], complexes=True),
    "index_accumulate": case(
        normal(2, 3),
        I,
        axis=1,
        shape=(2, 4),
        ref=lambda x, i, axis, shape: put(x, (slice(None), i), shape),
    ),
    "index_add": case(
        X,
        I,
        normal(3, 3, seed=8),
        axis=1,
        alpha=2,
        ref=lambda x, i, y, axis, alpha: index_put(x, 2 * y, (slice(None), i), True),
    ),
    "index_fill": case(X, I, axis=0, value=3, ref=lambda x, i, axis, value: index_put(x, 3, i)),
    "index_copy": case(
        X,
        np.array([2, 0]),
        normal(3, 2, seed=8),
        axis=1,
        ref=lambda x, i, y, axis: index_put(x, y, (slice(None), i)),
    ),
    "nonzero": case(mask(3, 4), ref=np.argwhere),
    "gather": [
        case(
            X, INDEX, axis=0, ref=lambda x, i, axis: np.take_along_axis(x, i, axis), complexes=True
        ),
        case(X, INDEX, axis=1, ref=lambda x, i, axis: np.take_along_axis(x[:2], i, axis)),
    ],
    "scatter_zeros": case(
        normal(2, 4),
        INDEX,
        axis=0,
        shape=(3, 4),
        ref=lambda x, i, axis, shape: scatter(np.zeros(shape), i, x, 0, np.add),
    ),
    "scatter": case(
        X, np.array([[2, 0, 1, 1], [0, 1, 0, 2]]), normal(3, 4, seed=8), axis=0, ref=scatter
    ),
    "scatter_value": case(
        X,
        INDEX,
        axis=1,
        value=4,
        ref=lambda x, i, axis, value: scatter(x, i, np.full(i.shape, 4.0), 1),
    ),
    "scatter_add": case(
        X,
        INDEX,
        normal(3, 4, seed=8),
        axis=0,
        ref=lambda x, i, y, axis: scatter(x, i, y, 0, np.add),
    ),
    "gather_padded": case(
        X,
        INDEX,
        axis=0,
        shape=(3, 4),
        ref=lambda x, i, axis, shape: np.pad(np.take_along_axis(x, i, axis), ((0, 1), (0, 0))),
    ),
    "scatter_corner": case(
        X,
        INDEX,
        axis=0,
        shape=(3, 4),
        ref=lambda x, i, axis, shape: scatter(np.zeros(shape), i, x, 0, np.add),
    ),
    "scatter_reduce": [
        case(X, INDEX, normal(2, 4, seed=8), axis=0, reduce="sum", ref=reduced(np.add)),
        case(X, INDEX, normal(2, 4, seed=8), axis=0, reduce="prod", ref=reduced(np.multiply)),
        case(apart(3, 4), INDEX, apart(2, 4) + 0.1, axis=0, reduce="amax", ref=reduced(np.maximum)),
        case(apart(3, 4), INDEX, apart(2, 4) + 0.1, axis=0, reduce="amin", ref=reduced(np.minimum)),
        case(X, INDEX, normal(2, 4, seed=8), axis=0, reduce="mean", include_self=False),
    ],
}
