"""What functions of matrices refuse, with PyTorch's texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook.ops.linalg_errors import LinAlgError as LinAlgError
from gradhook.overloads.checked import refuse
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor


def floating(name: str, *tensors: Tensor) -> None:
    """Raise RuntimeError for dtypes other than float32, float64 and the complex ones."""
    for k, t in enumerate(tensors, 1):
        refuse(name, "A" if k == 1 else "B", k, t)
        if t._a.dtype.kind not in "fc" and t.dtype.title != "BFloat16":
            raise RuntimeError(
                f"{name}: Expected a floating point or complex tensor as input. Got {t.dtype.title}"
            )
        if t._a.dtype.itemsize < 4:
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {t.dtype.title}")


def with_norm(input: Tensor) -> None:
    """Raise RuntimeError for what has no norm: integers and bool."""
    if input._a.dtype.kind in "biu":
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{input.dtype.title} instead."
        )


def matrices(name: str, A: Tensor, argument: str = "A") -> None:
    """Raise RuntimeError where A has fewer than 2 dimensions or is of another dtype."""
    floating(name, A)
    at_least_two(name, A, argument)


def at_least_two(name: str, A: Tensor, argument: str = "A") -> None:
    """Raise RuntimeError where A has fewer than 2 dimensions."""
    if A.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions, found {A.ndim}"
        )


def square(name: str, A: Tensor, argument: str = "A") -> None:
    """Raise RuntimeError where A is no batch of square matrices of a floating or complex dtype."""
    matrices(name, A, argument)
    m, n = A.shape[-2:]
    if m != n:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {m} by {n} "
            "matrices"
        )


def same_dtype(name: str, A: Tensor, B: Tensor) -> None:
    """Raise RuntimeError where the dtypes differ."""
    if A._a.dtype != B._a.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{A.dtype.title} and B of type {B.dtype.title} instead"
        )


def zero_pivots(A: Tensor) -> Tensor:
    """The first row (from 1) whose pivot is 0, 0 where there is none: (...,) int32."""
    packed = ops.lu_factors(A.detach())[0]
    return first_true(ops.equal(ops.diagonal(packed, dim1=-2, dim2=-1), 0))


def first_minor(A: Tensor) -> Tensor:
    """The order of the first leading minor that is not positive, 0 where all are: (...,) int32."""
    packed = ops.lu_factors(A.detach(), pivot=False)[0]
    pivots = ops.real_part(ops.diagonal(packed, dim1=-2, dim2=-1))
    return first_true(ops.logical_not(ops.greater(pivots, 0)))


def first_true(found: Tensor) -> Tensor:
    """The first place (from 1) along the last dimension that is True, 0 where none is; int32."""
    n = found.shape[-1]
    if n == 0:
        return ops.cast(ops.sum(found, axis=-1), dtype=np.dtype("i4"))
    order = ops.cumsum(ops.ones_like(ops.cast(found, dtype=np.dtype("i4"))), axis=-1)
    place = ops.amin(ops.where(found, order, n + 1), axis=-1)
    return ops.cast(ops.where(ops.greater(place, n), 0, place), dtype=np.dtype("i4"))


def checked(
    name: str, A: Tensor, run: Callable[[], Any], info: Callable[[Tensor], Tensor], text: str
) -> Any:
    """run(), with the LinAlgError of an op told by `text`, which may name {k}.

    CuPy raises none: its result is then undefined, without a wait for the device.
    """
    try:
        return run()
    except LinAlgError as error:
        raise LinAlgError(failure(name, info(A), text)) from error


def failure(name: str, info: Tensor, text: str) -> str:
    """`text` about the first failing matrix of a batch."""
    flat = [int(k) for k in np.ravel(info.detach().cpu().numpy())]
    place = next((i for i, k in enumerate(flat) if k), 0)
    batch = f"(Batch element {place}): " if info.ndim else ""
    return f"{name}: {batch}{text.format(k=flat[place] if flat else 0)}"


SINGULAR_INVERSE = (
    "The diagonal element {k} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)
SINGULAR_SYSTEM = "The solver failed because the input matrix is singular."
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {k} is not positive-definite)."
)
