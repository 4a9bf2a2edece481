"""sort, topk and their kin with named results; unique, bincount, bucketize."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook import backend, return_types
from gradhook.overloads.recorded import multi, ops, tensor_of
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = tuple(
    """
    searchsorted sort argsort msort topk kthvalue unique unique_consecutive bincount
    bucketize
""".split()
)
METHODS = tuple(
    """
    sort argsort msort topk kthvalue unique unique_consecutive bincount
""".split()
)
PROPERTIES: tuple[str, ...] = ()


def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> return_types.sort:
    """Elements in order along dim (NaN the largest) and their indices: return_types.sort(values,
    indices). Values of input's dtype, indices int64.
    """
    return return_types.sort(*multi.sort(input, axis=dim, descending=descending))


def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """The indices that sort along dim. Result: shape of input, int64."""
    return multi.sort(input.detach(), axis=dim, descending=descending)[1]


def msort(input: Tensor) -> Tensor:
    """Elements in order along the first dimension. Dtype of input."""
    return multi.sort(input, axis=0)[0]


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> return_types.topk:
    """The k largest (smallest) along dim, in order, and their indices.

    Values of input's dtype, indices int64.

    Errors: RuntimeError for too large a k.
    """
    return return_types.topk(*multi.topk(input, k=int(k), axis=dim, largest=largest))


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> return_types.kthvalue:
    """The k-th smallest (from 1) along dim and its index.

    Values of input's dtype, indices int64.

    Errors: RuntimeError when k is out of range.
    """
    return return_types.kthvalue(*multi.kth_smallest(input, k=k, axis=dim, keepdims=keepdim))


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (slices along dim) in order, and where each came from and how often, if
    asked. Dtype of input.
    """
    xp = backend.array_module(input._a)
    values, inverse, counts = xp.unique(input._a, return_inverse=True, return_counts=True, axis=dim)
    found = [tensor_of(values)]
    if return_inverse:
        found.append(
            tensor_of(xp.asarray(inverse).reshape(input.shape if dim is None else -1).astype("i8"))
        )
    if return_counts:
        found.append(tensor_of(counts.astype("i8")))
    return found[0] if len(found) == 1 else tuple(found)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements (slices along dim), and runs and their lengths, if
    asked. Dtype of input.
    """
    xp = backend.array_module(input._a)
    x = input._a.reshape(-1) if dim is None else xp.moveaxis(input._a, dim, 0)
    n = x.shape[0]
    rows = x.reshape(n, -1) if n else x.reshape(0, 1)
    starts = xp.concatenate([xp.ones(min(n, 1), bool), (rows[1:] != rows[:-1]).any(axis=1)])
    values = x[starts] if dim is None else xp.moveaxis(x[starts], 0, dim)
    found = [tensor_of(values)]
    if return_inverse:
        inverse = (xp.cumsum(starts) - 1).astype("i8")
        found.append(tensor_of(inverse.reshape(input.shape) if dim is None else inverse))
    if return_counts:
        edges = xp.concatenate([xp.nonzero(starts)[0], xp.asarray([n])])
        found.append(tensor_of((edges[1:] - edges[:-1]).astype("i8")))
    return found[0] if len(found) == 1 else tuple(found)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number occurs, or the sum of its weights. input: (n,) non-negative integers.

    Errors: RuntimeError for other inputs.
    """
    if (
        input.ndim != 1
        or input._a.dtype.kind not in "iu"
        or (input.numel() and int(input._a.min()) < 0)
    ):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    xp = backend.array_module(input._a)
    found = xp.bincount(input._a, None if weights is None else weights._a, minlength)
    if weights is None:
        return tensor_of(found.astype("i8"))
    return tensor_of(found.astype(weights._a.dtype if weights._a.dtype == np.float32 else "f8"))


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value would go into its sorted row. Result: shape of input, int64 or int32.

    side: "left" or "right", as right. sorter: indices that sort the rows. Errors: RuntimeError when
    the dimensions before the last differ, or side contradicts right.
    """
    if side is not None:
        if side not in ("left", "right") or (right and side == "left"):
            raise RuntimeError(
                "torch.searchsorted(): side and right can't be set to opposites, got side of "
                f"{side} while right was {right}"
            )
        right = side == "right"
    if sorter is not None:
        sorted_sequence = ops.gather(sorted_sequence.detach(), sorter, axis=-1)
    values = (
        input
        if isinstance(input, Tensor)
        else ops.fill(ops.zeros_like(_first(sorted_sequence)), value=input)
    )
    edges = sorted_sequence
    if edges.ndim > 1 and tuple(edges.shape[:-1]) != tuple(values.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(edges.shape)} and input value tensor {list(values.shape)}"
        )
    return ops.searchsorted(edges, values, out_int32=out_int32, right=right)


def _first(x: Tensor) -> Tensor:
    """A 0-d tensor of the dtype of x."""
    return ops.sum(ops.slice_view(x.detach(), index=(slice(0, 0),)), dtype=x._a.dtype)


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The bucket of each value between sorted boundaries. Result: shape of input, int64."""
    return ops.searchsorted(boundaries, input, out_int32=out_int32, right=right)
