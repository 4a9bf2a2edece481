"""Products of a sparse matrix, given by its values and a Pattern, with a dense one. On NumPy
through scipy.sparse, on CuPy by kernels of our own (kernels/sparse_product.py).

With t = sum over the entries k and columns b of values[k] y[row[k], b] x[column[k], b], each op is
the derivative of t by one factor, and so is each of its gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.libraries import scipy
from gradhook.ops.sparse_pattern import Pattern
from gradhook.ops.table import op

_CHUNK = 1 << 18  # elements of a dense operand gathered at once


@op(
    torch=None,
    method=False,
    promote="arith",
    values=lambda xp, g, x, pattern, transpose: xp.sparse_sampled(
        g, x, pattern=pattern, transpose=transpose
    ),
    x=lambda xp, g, values, pattern, transpose: xp.sparse_matmul(
        values, g, pattern=pattern, transpose=not transpose
    ),
)
def sparse_matmul(
    xp: Any, values: Any, x: Any, *, pattern: Pattern, transpose: bool = False
) -> Any:
    """The sparse matrix of `values` (nnz,) at `pattern` (m, n), or its transpose, times x (n, b).

    Result: (m, b), in the promoted dtype; 16-bit floats are summed in float32. Source:
    torch.sparse.mm.
    """
    kind = x.dtype
    if kind.itemsize == 2 and kind.kind not in "iu":
        values, x = values.astype("f4"), x.astype("f4")
    sparse = scipy(xp, "sparse")
    ordered = values if pattern.order is None else values[pattern.order]
    parts = (ordered, pattern.indices, pattern.indptr)
    if transpose:
        matrix = sparse.csc_matrix(parts, shape=pattern.shape[::-1])
    else:
        matrix = sparse.csr_matrix(parts, shape=pattern.shape)
    return (matrix @ x).astype(kind, copy=False)


@op(
    torch=None,
    method=False,
    promote="arith",
    y=lambda xp, g, x, pattern, transpose: xp.sparse_matmul(
        g, x, pattern=pattern, transpose=transpose
    ),
    x=lambda xp, g, y, pattern, transpose: xp.sparse_matmul(
        g, y, pattern=pattern, transpose=not transpose
    ),
)
def sparse_sampled(xp: Any, y: Any, x: Any, *, pattern: Pattern, transpose: bool = False) -> Any:
    """The entries of y @ x.T at the places of `pattern` (m, n), or of its transpose, and no others.

    y: (m, b), x: (n, b). Result: (nnz,), in the promoted dtype. Source: the sampled dense-dense
    product of torch.sparse.sampled_addmm.
    """
    rows, columns = pattern.places(xp)
    if transpose:
        rows, columns = columns, rows
    kind = x.dtype
    half = kind.itemsize == 2 and kind.kind not in "iu"
    result = xp.empty(pattern.nnz, "f4" if half else kind)
    step = max(1, _CHUNK // max(1, x.shape[1]))
    for start in range(0, pattern.nnz, step):
        part = slice(start, start + step)
        left, right = y.take(rows[part], axis=0), x.take(columns[part], axis=0)
        if half:
            left, right = left.astype("f4"), right.astype("f4")
        result[part] = np.einsum("kb,kb->k", left, right) if xp is np else (left * right).sum(1)
    return result.astype(kind, copy=False)
