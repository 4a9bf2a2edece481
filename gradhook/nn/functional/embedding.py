"""Rows of a table by index, and one-hot encoding."""

from __future__ import annotations

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.recorded import ops as xp
from gradhook.storage import bump
from gradhook.tensor import Tensor


def _renormalize(indices: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are read down to max_norm, in place and outside the graph."""
    module = ARRAY_MODULES[type(weight._a)]
    rows = module.unique(indices._a)
    read = weight._a[rows]
    norms = (module.abs(read) ** norm_type).sum(axis=1, keepdims=True) ** (1 / norm_type)
    weight._a[rows] = module.where(norms > max_norm, read * (max_norm / (norms + 1e-7)), read)
    bump(weight)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """weight[input].

    input: any shape, integer; weight: (rows, columns). Result: (*input.shape, columns).

    padding_idx: this row gets no gradient; max_norm: rows that are read are first scaled down to
    this norm, in place. sparse is accepted and the gradient is dense. Errors: RuntimeError for a
    weight that is no matrix or an input that is not integer; IndexError for an index outside the
    table (on the CPU).
    """
    indices, table = input._a, weight._a
    if table.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype.kind not in "iu":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got gradhook.{input.dtype.title}Tensor instead (while checking "
            "arguments for embedding)"
        )
    rows = table.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if (
        type(indices) is np.ndarray
        and indices.size
        and (indices.min() < 0 or indices.max() >= rows)
    ):
        wrong = indices[(indices < 0) | (indices >= rows)].flat[0]
        raise IndexError(f"index out of range in self: found {wrong}, expected 0 to {rows - 1}")
    if max_norm is not None:
        _renormalize(input, weight, max_norm, norm_type)
    return xp.embedding(input, weight, padding_idx=padding_idx, by_frequency=scale_grad_by_freq)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Class indices as rows of zeros with a one.

    tensor: any shape, int64. Result: (*shape, num_classes), int64.

    num_classes: -1 means one more than the largest index (a device read). Errors: RuntimeError for
    an index that is negative or too large (on the CPU), TypeError-like for another dtype.
    """
    a = tensor._a
    if a.dtype != np.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor, found {tensor.dtype!r}"
        )
    if a.size == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if type(a) is np.ndarray and a.size:
        if a.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if 0 <= num_classes <= a.max():
            raise RuntimeError("Class values must be smaller than num_classes.")
    classes = (
        int(make(a.max()[None] if a.ndim else a.reshape(1)).item()) + 1
        if num_classes < 0
        else num_classes
    )
    module = ARRAY_MODULES[type(a)]
    rows: Tensor = make((a[..., None] == module.arange(classes)).astype(np.int64))
    return rows
