"""Norms, condition, rank, and products of many matrices: `gradhook.linalg`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradhook import dtypes
from gradhook.ops.axes import broadcast, wrap
from gradhook.overloads import linalg_checks as check
from gradhook.overloads import products
from gradhook.overloads.checked import refuse
from gradhook.overloads.linalg_solving import inv, tolerance
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor

OLDER = {"matrix_power": "old_matrix_power"}
RENAMED: dict[str, str] = OLDER
LINALG = tuple(
    """
    norm vector_norm matrix_norm cond matrix_rank matrix_power matrix_exp multi_dot vander cross
    vecdot diagonal matmul
""".split()
)
FUNCTIONS = ("matrix_exp", "matrix_power", "chain_matmul")
METHODS = ("matrix_exp", "matrix_power")
PROPERTIES: tuple[str, ...] = ()
INF = float("inf")


def _norm_input(name: str, A: Tensor, dtype: Any) -> Tensor:
    refuse(name, "A", 1, A)
    if dtype is not None:
        A = ops.cast(A, dtype=dtypes.raw(dtype))
    if A._a.dtype.kind not in "fc" and A.dtype.title != "BFloat16":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype.title}"
        )
    return A


def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """(sum |x|^ord)^(1/ord) over dim (all without), ord 0, inf and -inf as limits.

    x: floating or complex. Result: reduced, real. Errors: RuntimeError for other dtypes and for
    the norms of no element that have no value. Source: torch.linalg.vector_norm.
    """
    x = _norm_input("linalg.vector_norm", x, dtype)
    if isinstance(dim, list | tuple) and not dim:
        dim = None
    sizes = tuple(x.shape) if dim is None else [x.shape[d] for d in _dims(dim, x.ndim)]
    if (ord < 0 or ord == INF) and 0 in sizes:
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the "
            "operation does not have an identity"
        )
    return ops.vector_norm(x, ord=float(ord), axis=dim, keepdims=keepdim)


def _dims(dim: Any, ndim: int) -> tuple[int, ...]:
    return tuple(wrap(d, ndim) for d in ((dim,) if isinstance(dim, int) else dim))


def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Norm of matrices: "fro", "nuc", inf, -inf (rows), 1, -1 (columns), 2, -2 (singular values).

    A: floating or complex, dim its two matrix dimensions. Result: reduced, real. Errors:
    RuntimeError. Source: torch.linalg.matrix_norm.
    """
    name = "linalg.matrix_norm"
    A = _norm_input(name, A, dtype)
    check.at_least_two(name, A)
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {tuple(dim)}")
    row, column = _dims(dim, A.ndim)
    if row == column:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return ops.vector_norm(A, ord=2.0, axis=(row, column), keepdims=keepdim)
    if ord in ("nuc", 2, -2):
        found = _of_singular_values(A, ord, row, column)
        for d in sorted((row, column)) if keepdim else ():
            found = ops.expand_dims(found, axis=d)
        return found
    if ord not in (1, -1, INF, -INF):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    first, last = (row, column) if abs(ord) == 1 else (column, row)
    sums = ops.sum(ops.absolute(A), axis=first, keepdims=True)
    found = (ops.amax if ord > 0 else ops.amin)(sums, axis=last, keepdims=True)
    return found if keepdim else ops.squeeze(found, axis=(row, column))


def _of_singular_values(A: Tensor, ord: Any, row: int, column: int) -> Tensor:
    check.floating("linalg.matrix_norm", A)
    moved = ops.movedim(A, source=(row, column), destination=(-2, -1))
    values = ops.singular_values(moved)
    if ord == "nuc":
        return ops.sum(values, axis=-1)
    return (ops.amax if ord > 0 else ops.amin)(values, axis=-1)


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """vector_norm over one dimension, or all without ord, matrix_norm over two.

    A: floating or complex. Result: reduced, real. Errors: RuntimeError. Source: torch.linalg.norm.
    """
    A = _norm_input("linalg.norm", A, dtype)
    if dim is None and ord is not None and A.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.ndim}D."
        )
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
        )
    if ord is not None and (A.ndim == 2 if dims is None else len(dims) == 2):
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: Order {ord} not supported for vectors")
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim)


def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number norm(A, p) norm(inv(A), p); of singular values for p None, 2 and -2.

    A: (..., m, n), square for other p. Result: (...) real; inf for singular matrices. Source:
    torch.linalg.cond. Errors: RuntimeError for another p.
    """
    check.matrices("linalg.cond", A)
    if p is None or p in (2, -2):
        values = ops.singular_values(A)
        if values.shape[-1] == 0:
            return ops.zeros_like(ops.sum(values, axis=-1))
        large, small = values[..., 0], values[..., -1]
        return ops.divide(small, large) if p == -2 else ops.divide(large, small)
    check.square("linalg.cond", A)
    if p not in ("fro", "nuc", 1, -1, INF, -INF):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if A.numel() == 0:
        return ops.real_part(ops.sum(A, axis=(-2, -1)))
    try:
        return ops.multiply(matrix_norm(A, p), matrix_norm(inv(A), p))
    except check.LinAlgError:
        info = check.zero_pivots(A)
        failed = ops.expand_dims(ops.expand_dims(ops.not_equal(info, 0), axis=-1), axis=-1)
        one = ops.diag_embed(ops.ones_like(ops.diagonal(A, dim1=-2, dim2=-1)))
        sizes = matrix_norm(inv(ops.where(failed, one, A)), p)
        found = ops.multiply(matrix_norm(A, p), sizes)
        return ops.masked_fill(found, ops.not_equal(info, 0), value=INF)


def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """How many singular values exceed max(atol, rtol * the largest). A: (..., m, n).

    Result: (...) int64. tol: atol with rtol 0; rtol: max(m, n) eps where atol is 0. Source:
    torch.linalg.matrix_rank.
    """
    check.matrices("linalg.matrix_rank", A)
    if hermitian:
        check.square("linalg.matrix_rank", A)
    for name, given in (("tol", tol), ("atol", atol), ("rtol", rtol)):
        tolerance(given, "matrix_rank", name)
    A = A.detach()
    if tol is not None:
        atol, rtol = tol, 0.0
    atol = 0.0 if atol is None else atol
    if rtol is None:
        eps = float(np.finfo(A._a.dtype).eps) * max(A.shape[-2:])
        if isinstance(atol, Tensor):
            none = ops.cast(ops.less_equal(atol, 0), dtype=np.dtype("f8"))
            rtol = ops.multiply(none, eps)
        else:
            rtol = 0.0 if atol > 0 else eps
    values = ops.absolute(ops.eigvalsh(A)) if hermitian else ops.singular_values(A)
    if 0 in A.shape[-2:]:
        return ops.count_nonzero(values, axis=-1)
    largest = ops.amax(values, axis=-1, keepdims=True)
    limit = ops.multiply(largest, _column(rtol))
    limit = ops.maximum(limit, ops.add(ops.zeros_like(limit), _column(atol)))
    return ops.count_nonzero(ops.greater(values, limit), axis=-1)


def _column(value: Any) -> Any:
    return ops.expand_dims(value, axis=-1) if isinstance(value, Tensor) else tolerance(value)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A multiplied n times with itself; the identity for 0, of the inverse for negative n.

    A: (..., k, k). Result: shape of A. Source: torch.linalg.matrix_power.
    Matrices of one dtype: floating, complex or integer.
    """
    refuse("linalg.matrix_power", "A", 1, A)
    check.at_least_two("linalg.matrix_power", A)
    if A.shape[-1] != A.shape[-2]:
        check.square("linalg.matrix_power", A)
    if n == 0:
        one = ops.diag_embed(ops.ones_like(ops.diagonal(A, dim1=-2, dim2=-1)))
        return ops.add(one, ops.tril(A, diagonal=-A.shape[-1]))
    if n < 0:
        A, n = inv(A), -n
    found = None
    while n:
        if n & 1:
            found = A if found is None else ops.matmul(found, A)
        n >>= 1
        if n:
            A = ops.matmul(A, A)
    assert found is not None
    return found


def old_matrix_power(input: Tensor, n: int) -> Tensor:
    """linalg.matrix_power under its older name.

    Matrices of one dtype: floating, complex or integer.
    """
    return matrix_power(input, n)


def matrix_exp(A: Tensor) -> Tensor:
    """Exponential of square matrices. A: (..., n, n), floating or complex. Result: shape of A.

    Source: torch.linalg.matrix_exp.
    """
    check.square("linalg.matrix_exp", A)
    return ops.matrix_exp(A)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices in the order of least work; the first and the last may
    be vectors. Result: what matmul gives. Errors: RuntimeError. Source: torch.linalg.multi_dot.
    Matrices of one dtype: floating, complex or integer.
    """
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    given = list(tensors)
    for k, t in enumerate(given):
        if t.ndim != 2 and not (t.ndim == 1 and k in (0, n - 1)):
            expected = "1D or 2D" if k in (0, n - 1) else "2D"
            raise RuntimeError(f"multi_dot(): tensor {k} must be {expected} but got {t.ndim}D")
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    if first:
        given[0] = ops.expand_dims(given[0], axis=0)
    if last:
        given[-1] = ops.expand_dims(given[-1], axis=-1)
    found = _chained(given, _splits(given), 0, n - 1)
    dropped = ([-2] if first else []) + ([-1] if last else [])
    return ops.squeeze(found, axis=tuple(dropped)) if dropped else found


def _splits(matrices: list[Tensor]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices for the fewest multiplications."""
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    n = len(matrices)
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(costs)
    return split


def _chained(matrices: list[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return matrices[i]
    k = split[i, j]
    return ops.matmul(_chained(matrices, split, i, k), _chained(matrices, split, k + 1, j))


def chain_matmul(*matrices: Tensor) -> Tensor:
    """multi_dot of matrices given one by one; of one matrix the matrix itself.

    Matrices of one dtype: floating, complex or integer. Errors: RuntimeError for what is no matrix.
    """
    for k, t in enumerate(matrices):
        if t.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {t.ndim}, expected 2 instead (matrix {k}).")
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 to N - 1 of each element in a last dimension. x: (..., n), N: n without.

    Result: (..., n, N). Errors: RuntimeError. Any dtype but bool. Source: torch.linalg.vander.
    """
    if x.ndim == 0:
        x = ops.expand_dims(x, axis=0)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"N must be greater than 1., found {count}")
    if x._a.dtype.kind == "b":
        x = ops.cast(x, dtype=np.dtype("i8"))
    column = ops.expand_dims(x, axis=-1)
    repeated = ops.broadcast_to(column, shape=(*tuple(x.shape), count - 1))
    return ops.concat(ops.ones_like(column), ops.cumprod(repeated, axis=-1), axis=-1)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Vector product along a dimension of 3, the others broadcasting. Source:
    torch.linalg.cross. Floating or complex. Errors: RuntimeError for other numbers of dimensions.
    """
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, found "
            f"{input.ndim} and {other.ndim}"
        )
    return products.cross(input, other, dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sum of conj(x) * y along dim, the others broadcasting. Source: torch.linalg.vecdot.

    Floating or complex.
    """
    check.floating("linalg.vecdot", x, y)
    check.same_dtype("linalg.vecdot", x, y)
    wrap(dim, len(broadcast(tuple(x.shape), tuple(y.shape))))
    left = ops.conj(x) if x._a.dtype.kind == "c" else x
    return ops.sum(ops.multiply(left, y), axis=dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices as a last dimension, a view. A: (..., m, n). Any dtype."""
    return ops.diagonal(A, offset=offset, dim1=dim1, dim2=dim2)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """gradhook.matmul. Shapes as of matrices and vectors there; one dtype."""
    return ops.matmul(input, other)
