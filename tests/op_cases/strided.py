"""Rows of ops/strided.py."""

from __future__ import annotations

import numpy as np

from op_cases import case, normal

WINDOWS = {"size": (3, 2), "stride": (1, 2), "delta": 1, "x_stride": (3, 1)}
AT = 1 + np.arange(3)[:, None] + 2 * np.arange(2)


def read(x, size, stride, delta, x_stride):
    return x.reshape(-1)[AT]


def added(x, size, stride, delta, shape, x_stride):
    result = np.zeros(6)
    np.add.at(result, AT, x)
    return result.reshape(2, 3)


ROWS = {
    "strided": case(normal(2, 3), ref=read, complexes=True, **WINDOWS),
    "unstrided": [
        case(normal(3, 2), shape=(2, 3), ref=added, complexes=True, **WINDOWS),
        case(
            normal(3),
            size=(3,),
            stride=(1,),
            delta=-1,
            shape=(2, 2),
            x_stride=(0, 1),
            ref=lambda x, **_: np.array([[x[1], x[2]], [x[1], x[2]]]) / 2,
        ),
    ],
    "restrided": [
        case(
            normal(2, 3),
            shape=(2, 3),
            ref=lambda x, shape, **g: read(x, **g),
            complexes=True,
            **WINDOWS,
        ),
        case(
            normal(2, 2),
            size=(3,),
            stride=(1,),
            delta=-1,
            shape=(2, 2),
            x_stride=(0, 1),
            ref=lambda x, **_: np.array([0, *x.sum(0) / 2]),
        ),
    ],
}
