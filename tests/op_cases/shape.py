"""Rows of ops/shape.py, diagonals.py and joining.py."""

from __future__ import annotations

import numpy as np

from op_cases import case, normal

X = normal(2, 3, 4)

ROWS = {
    "reshape": case(X, shape=(4, -1), ref=lambda x, shape: x.reshape(shape), complexes=True),
    "view": case(X, shape=(6, 4), ref=lambda x, shape: x.reshape(shape)),
    "permute_dims": case(X, dims=(2, 0, -2), ref=lambda x, dims: x.transpose(2, 0, 1)),
    "transpose": case(X, dim0=0, dim1=-1, ref=lambda x, dim0, dim1: x.swapaxes(0, 2)),
    "matrix_transpose": case(X, ref=lambda x: x.swapaxes(1, 2), complexes=True),
    "t": case(normal(2, 3), ref=np.transpose),
    "movedim": case(
        X, source=0, destination=-1, ref=lambda x, source, destination: np.moveaxis(x, 0, -1)
    ),
    "expand_dims": case(X, axis=-2, ref=np.expand_dims),
    "squeeze": [
        case(normal(1, 3, 1), ref=np.squeeze),
        case(normal(1, 3, 1), axis=(0, 1), ref=lambda x, axis: x[0]),
    ],
    "broadcast_to": case(
        normal(3, 1), shape=(2, 3, 4), ref=lambda x, shape: np.broadcast_to(x, shape)
    ),
    "expand": case(
        normal(3, 1), size=(2, -1, 4), ref=lambda x, size: np.broadcast_to(x, (2, 3, 4))
    ),
    "flatten": case(X, start_dim=1, ref=lambda x, start_dim: x.reshape(2, 12)),
    "unflatten": case(X, axis=2, sizes=(2, -1), ref=lambda x, axis, sizes: x.reshape(2, 3, 2, 2)),
    "ravel": case(X, ref=np.ravel),
    "flip": case(X, dims=(0, -1), ref=lambda x, dims: np.flip(x, dims)),
    "roll": [
        case(X, shifts=(1, -2), dims=(0, 2), ref=lambda x, shifts, dims: np.roll(x, shifts, dims)),
        case(normal(2, 3), shifts=2, ref=lambda x, shifts: np.roll(x, shifts)),
    ],
    "diagonal": [
        case(normal(3, 4), offset=1, ref=lambda x, offset: np.diagonal(x, offset), complexes=True),
        case(X, dim1=2, dim2=0, ref=lambda x, dim1, dim2: np.diagonal(x, 0, 2, 0)),
    ],
    "undiagonal": case(
        normal(3),
        shape=(3, 3),
        offset=0,
        dim1=0,
        dim2=1,
        ref=lambda x, shape, offset, dim1, dim2: np.diag(x),
    ),
    "tril": case(X, diagonal=1, ref=lambda x, diagonal: np.tril(x, diagonal), complexes=True),
    "triu": case(X, diagonal=-1, ref=lambda x, diagonal: np.triu(x, diagonal)),
    "concat": [
        case(
            normal(2, 3),
            normal(1, 3, seed=8),
            axis=0,
            ref=lambda x, y, axis: np.concatenate((x, y)),
            complexes=True,
        ),
        case(
            normal(2, 3),
            np.zeros(0),
            normal(2, 1, seed=8),
            axis=-1,
            ref=lambda x, _, y, axis: np.concatenate((x, y), 1),
            constant=(1,),
        ),
    ],
    "stack": case(
        normal(2, 3), normal(2, 3, seed=8), axis=1, ref=lambda x, y, axis: np.stack((x, y), 1)
    ),
    "split": case(
        normal(2, 5), sizes=(1, 0, 4), axis=1, ref=lambda x, sizes, axis: np.split(x, [1, 1], 1)
    ),
    "unbind": case(normal(2, 3), axis=1, ref=lambda x, axis: tuple(x.T)),
    "tile": case(normal(2, 3), dims=(2,), ref=lambda x, dims: np.tile(x, dims)),
    "repeat": case(normal(2, 3), repeats=(2, 1, 2), ref=lambda x, repeats: np.tile(x, repeats)),
    "windows": case(
        normal(2, 5),
        size=2,
        step=2,
        axis=1,
        ref=lambda x, size, step, axis: np.stack([x[:, 0:2], x[:, 2:4]], 1),
    ),
    "fold_windows": case(
        normal(2, 4, 2),
        shape=(2, 5),
        size=2,
        step=1,
        axis=1,
        ref=lambda x, shape, size, step, axis: (
            np.pad(x[..., 0], ((0, 0), (0, 1))) + np.pad(x[..., 1], ((0, 0), (1, 0)))
        ),
    ),
}
