"""Matrix products: matmul of any dimensions, and PyTorch's strict mm, bmm, mv, dot."""

from __future__ import annotations

from typing import Any

from gradhook.dtypes import raw
from gradhook.ops.axes import wrap
from gradhook.ops.table import composite, op


@composite(fresh=True)
def matmul_left_grad(xp: Any, g: Any, y: Any, *, shape: Any) -> Any:
    """Gradient of matmul_left for its `grad`: g @ y.

    g: broadcast `shape`. Result: shape of grad.
    """
    if y.ndim > 1 and len(shape) == 1:
        return xp.squeeze(xp.matmul(xp.expand_dims(g, axis=-2), y), axis=-2)
    return g * y if len(shape) == 1 else xp.matmul(g, y)


@composite(fresh=True)
def matmul_left_factor(xp: Any, g: Any, grad: Any, *, shape: Any, ndim: int) -> Any:
    """Gradient of matmul_left for y, of `ndim` dimensions. Result: broadcasts to y by summing."""
    if ndim == 1:
        return g * grad if len(shape) == 1 else g * xp.expand_dims(grad, axis=-1)
    if len(shape) == 1:
        return xp.expand_dims(g, axis=-1) * xp.expand_dims(grad, axis=-2)
    return xp.matmul(xp.matrix_transpose(g), grad)


@op(
    torch=None,
    grad=lambda xp, g, y, shape: xp.matmul_left_grad(g, y, shape=shape),
    y=lambda xp, g, grad, shape, y_shape: xp.matmul_left_factor(
        g, grad, shape=shape, ndim=len(y_shape)
    ),
)
def matmul_left(xp: Any, grad: Any, y: Any, *, shape: Any) -> Any:
    """Gradient of matmul for its first input, of this shape: grad @ y^T.

    grad: as matmul(x, y). Result: broadcasts to `shape` by summing.
    """
    if y.ndim == 1:
        return grad * y if len(shape) == 1 else grad[..., None] * y
    if len(shape) == 1:
        return xp.matmul(y, grad[..., None])[..., 0]
    return xp.matmul(grad, y.swapaxes(-1, -2))


@composite(fresh=True)
def matmul_right_grad(xp: Any, g: Any, x: Any, *, shape: Any) -> Any:
    """Gradient of matmul_right for its `grad`: x @ g. Result: shape of grad."""
    if x.ndim > 1 and len(shape) == 1:
        return xp.squeeze(xp.matmul(x, xp.expand_dims(g, axis=-1)), axis=-1)
    return x * g if len(shape) == 1 else xp.matmul(x, g)


@composite(fresh=True)
def matmul_right_factor(xp: Any, g: Any, grad: Any, *, shape: Any, ndim: int) -> Any:
    """Gradient of matmul_right for x, of `ndim` dimensions. Result: broadcasts to x by summing."""
    if len(shape) == 1:
        if ndim == 1:
            return g * grad
        return xp.expand_dims(grad, axis=-1) * xp.expand_dims(g, axis=-2)
    if ndim == 1:
        return xp.squeeze(xp.matmul(g, xp.expand_dims(grad, axis=-1)), axis=-1)
    return xp.matmul(grad, xp.matrix_transpose(g))


@op(
    torch=None,
    x=lambda xp, g, grad, shape, x_shape: xp.matmul_right_factor(
        g, grad, shape=shape, ndim=len(x_shape)
    ),
    grad=lambda xp, g, x, shape: xp.matmul_right_grad(g, x, shape=shape),
)
def matmul_right(xp: Any, x: Any, grad: Any, *, shape: Any) -> Any:
    """Gradient of matmul for its second input, of this shape: x^T @ grad.

    grad: as matmul(x, y). Result: broadcasts to `shape` by summing.
    """
    if x.ndim == 1:
        return grad * x if len(shape) == 1 else x[:, None] * grad[..., None, :]
    if len(shape) == 1:
        return xp.matmul(x.swapaxes(-1, -2), grad[..., None])[..., 0]
    if x.ndim > 2 == len(shape) and x.size and grad.size:  # one product for the whole batch
        return xp.matmul(x.reshape(-1, x.shape[-1]).T, grad.reshape(-1, grad.shape[-1]))
    return xp.matmul(x.swapaxes(-1, -2), grad)


@op(
    torch="matmul(input, other)",
    operator="matmul",
    promote="same",
    x=lambda xp, g, y, x_shape: xp.matmul_left(g, y, shape=x_shape),
    y=lambda xp, g, x, y_shape: xp.matmul_right(x, g, shape=y_shape),
)
def matmul(xp: Any, x: Any, y: Any) -> Any:
    """Matrix product over the last two dimensions, the others broadcasting; a vector is a row or a
    column.

    x: (..., n, k) or (k,); y: (..., k, m) or (k,); one dtype. Result: (..., n, m). Errors:
    RuntimeError.
    """
    try:
        return xp.matmul(x, y)
    except ValueError as error:
        raise RuntimeError(_mismatch(x, y)) from error


def _mismatch(x: Any, y: Any) -> str:
    if x.ndim == 0 or y.ndim == 0:
        return (
            f"both arguments to matmul need to be at least 1D, but they are {x.ndim}D and {y.ndim}D"
        )
    a = "x".join(map(str, x.shape if x.ndim > 1 else (1, *x.shape)))
    b = "x".join(map(str, y.shape if y.ndim > 1 else (*y.shape, 1)))
    return f"mat1 and mat2 shapes cannot be multiplied ({a} and {b})"


@op(
    torch="mm(input, mat2)",
    promote="same",
    x=lambda xp, g, y: g @ xp.matrix_transpose(y),
    y=lambda xp, g, x: xp.matrix_transpose(x) @ g,
)
def mm(xp: Any, x: Any, y: Any) -> Any:
    """Product of two matrices.

    x: (n, k), y: (k, m), one dtype. Result: (n, m). Errors: RuntimeError for others.
    """
    if x.ndim != 2 or y.ndim != 2:
        name, found = ("self", x.ndim) if x.ndim != 2 else ("mat2", y.ndim)
        raise RuntimeError(f"{name} must be a matrix, found {found} dimensions")
    return matmul(xp, x, y)


@op(
    torch="bmm(input, mat2)",
    promote="same",
    x=lambda xp, g, y: g @ xp.matrix_transpose(y),
    y=lambda xp, g, x: xp.matrix_transpose(x) @ g,
)
def bmm(xp: Any, x: Any, y: Any) -> Any:
    """Products of two batches of matrices.

    x: (b, n, k), y: (b, k, m). Result: (b, n, m). Errors: RuntimeError.
    """
    if x.ndim != 3 or y.ndim != 3:
        raise RuntimeError(f"batch1 and batch2 must be 3D tensors, found {x.ndim}D and {y.ndim}D")
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{x.shape[0]}, "
            f"{x.shape[2]}] but got: "
            f"[{y.shape[0]}, {y.shape[1]}]."
        )
    return xp.matmul(x, y)


@op(
    torch="mv(input, vec)",
    promote="same",
    x=lambda xp, g, y: xp.expand_dims(g, axis=-1) * y,
    y=lambda xp, g, x: xp.matmul(xp.matrix_transpose(x), g),
)
def mv(xp: Any, x: Any, y: Any) -> Any:
    """Product of a matrix and a vector.

    x: (n, k), y: (k,), one dtype. Result: (n,). Errors: RuntimeError.
    """
    if x.ndim != 2 or y.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {x.ndim}, {y.ndim}")
    if x.shape[1] != y.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({x.shape[0]}x{x.shape[1]}), vec ({y.shape[0]})"
        )
    return xp.matmul(x, y)


@op(torch="dot(input, tensor)", promote="same", x=lambda xp, g, y: g * y, y=lambda xp, g, x: g * x)
def dot(xp: Any, x: Any, y: Any) -> Any:
    """Sum of products of two vectors, no conjugate.

    x, y: (n,), one dtype. Result: (). Errors: RuntimeError.
    """
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.shape != y.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{x.shape[0]}] and src [{y.shape[0]}] to "
            "have the same number "
            f"of elements, but got {x.shape[0]} and {y.shape[0]} elements respectively"
        )
    return xp.dot(x, y)


@composite(torch="vdot(input, other)")
def vdot(xp: Any, x: Any, y: Any) -> Any:
    """Sum of products of two vectors, the first conjugated. x, y: (n,), one dtype. Result: ()."""
    return xp.dot(xp.conj(x), y)


@composite(torch="outer(input, vec2)", aliases=("ger",))
def outer(xp: Any, x: Any, y: Any) -> Any:
    """Products of every pair.

    x: (n,), y: (m,). Result: (n, m), promoted dtype. Errors: RuntimeError for others.
    """
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise RuntimeError(
            f"outer: Expected 1-D arguments, but got {len(x.shape)}-D and {len(y.shape)}-D"
        )
    return xp.expand_dims(x, axis=-1) * y


@composite(torch="trace(input)")
def trace(xp: Any, x: Any) -> Any:
    """Sum of the diagonal. x: (n, m). Result: (). Errors: RuntimeError for others."""
    if len(x.shape) != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(len(x.shape)))
    return xp.sum(xp.diagonal(x))


@composite(torch="diag_embed(input, offset=0, dim1=-2, dim2=-1)")
def diag_embed(xp: Any, x: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension of x on a diagonal.

    x: (..., n). Result: one dimension more.
    """
    n = x.shape[-1] + abs(offset)
    ndim = len(x.shape) + 1
    dim1, dim2 = wrap(dim1, ndim), wrap(dim2, ndim)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    lead = list(x.shape[:-1])
    for d in sorted((dim1, dim2)):
        lead.insert(d, n)
    if dim1 > dim2:
        dim1, dim2, offset = dim2, dim1, -offset
    return xp.undiagonal(x, shape=tuple(lead), offset=offset, dim1=dim1, dim2=dim2)


@composite(torch="diag(input, diagonal=0)")
def diag(xp: Any, x: Any, *, diagonal: int = 0) -> Any:
    """The matrix with x on a diagonal, or the diagonal of a matrix.

    x: (n,) or (n, m). Result: (n, n) or (min(n, m),), a copy. Errors: RuntimeError for others.
    """
    if len(x.shape) == 1:
        return xp.diag_embed(x, offset=diagonal)
    if len(x.shape) != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {len(x.shape)}D")
    return xp.clone(xp.diagonal(x, offset=diagonal))


@composite(torch="addmm(input, mat1, mat2, *, beta=1, alpha=1)", inplace=True)
def addmm(xp: Any, x: Any, y: Any, z: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * (y @ z). x: broadcasts to (n, m); y: (n, k), z: (k, m). Result: (n, m)."""
    return _scaled(x, beta, xp.mm(y, z), alpha)


@composite(torch="addmv(input, mat, vec, *, beta=1, alpha=1)", inplace=True)
def addmv(xp: Any, x: Any, y: Any, z: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * (y @ z). x: broadcasts to (n,); y: (n, k), z: (k,). Result: (n,)."""
    return _scaled(x, beta, xp.mv(y, z), alpha)


@composite(torch="addr(input, vec1, vec2, *, beta=1, alpha=1)", inplace=True)
def addr(xp: Any, x: Any, y: Any, z: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * outer(y, z). x: broadcasts to (n, m); y: (n,), z: (m,). Result: (n, m).

    Errors: RuntimeError for factors of integers that are no integers.
    """
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, float) and kind_of(x.dtype) in "biu":
            raise RuntimeError(
                f"addr: For integral input tensors, argument {name} must not be a floating point "
                f"number, found {factor}"
            )
    return _scaled(x, beta, xp.outer(y, z), alpha)


@composite(torch="baddbmm(input, batch1, batch2, *, beta=1, alpha=1)", inplace=True)
def baddbmm(xp: Any, x: Any, y: Any, z: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * bmm(y, z).

    x: broadcasts to (b, n, m); y: (b, n, k), z: (b, k, m). Result: (b, n, m).
    """
    return _scaled(x, beta, xp.bmm(y, z), alpha)


@composite(torch="addbmm(input, batch1, batch2, *, beta=1, alpha=1)", inplace=True)
def addbmm(xp: Any, x: Any, y: Any, z: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * the sum of bmm(y, z).

    x: broadcasts to (n, m); y: (b, n, k), z: (b, k, m). Result: (n, m).
    """
    return _scaled(x, beta, xp.sum(xp.bmm(y, z), axis=0), alpha)


def kind_of(dtype: Any) -> str:
    """The kind of a NumPy or gradhook dtype: "f", "i", ..."""
    found = raw(dtype)
    assert found is not None
    return found.kind


def _scaled(x: Any, beta: Any, product: Any, alpha: Any) -> Any:
    if kind_of(x.dtype) in "biu":  # as torch, integers take only the integer part of the factors
        beta, alpha = int(beta), int(alpha)
    scaled = product if isinstance(alpha, int) and alpha == 1 else product * alpha
    if not isinstance(beta, int) or beta != 1:
        x = x * beta
    return x + scaled
