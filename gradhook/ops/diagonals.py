"""Reversing and shifting dimensions; diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

from gradhook.ops.axes import wrap
from gradhook.ops.table import composite, op


@op(torch="flip(input, *dims)", linear=True, x=lambda xp, g, dims: xp.flip(g, dims=dims))
def flip(xp: Any, x: Any, *, dims: Any) -> Any:
    """x in reverse along `dims`, a copy. Result: shape and dtype of x."""
    axes = tuple(wrap(int(d), x.ndim) for d in ([dims] if isinstance(dims, int) else dims))
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    return xp.flip(x, axes).copy() if x.ndim and axes else x.copy()


@composite()
def unroll(xp: Any, x: Any, *, shifts: Any, dims: Any) -> Any:
    """Undo `roll`. x: any shape. Result: shape and dtype of x."""
    back = -shifts if isinstance(shifts, int) else tuple(-s for s in shifts)
    return xp.roll(x, shifts=back, dims=dims)


@op(
    torch="roll(input, shifts, dims=())",
    linear=True,
    x=lambda xp, g, shifts, dims: xp.unroll(g, shifts=shifts, dims=dims),
)
def roll(xp: Any, x: Any, *, shifts: Any, dims: Any = ()) -> Any:
    """x shifted along `dims` with wrap-around (flattened without).

    x: any shape. Result: shape and dtype of x, a copy. Errors: RuntimeError when the counts differ.
    """
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if not moves:
        raise RuntimeError("`shifts` required")
    if not dims and len(moves) == 1:
        return xp.roll(x, moves[0])
    if len(dims) != len(moves):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(dims)}"
        )
    if x.ndim == 0:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return xp.roll(x, moves, dims)


@op(
    torch="diagonal(input, offset=0, dim1=0, dim2=1)",
    view=True,
    linear=True,
    x=lambda xp, g, x_shape, offset, dim1, dim2: xp.undiagonal(
        g, shape=x_shape, offset=offset, dim1=dim1, dim2=dim2
    ),
)
def diagonal(xp: Any, x: Any, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of two dimensions as the last one, a view. x: at least 2 dimensions."""
    dim1, dim2 = wrap(dim1, x.ndim), wrap(dim2, x.ndim)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    result = x.diagonal(offset, dim1, dim2)
    if type(x).__module__ == "numpy" and x.flags.writeable:
        result.flags.writeable = True  # NumPy's diagonal is read-only for historical reasons
    return result


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset=offset, dim1=dim1, dim2=dim2),
)
def undiagonal(xp: Any, x: Any, *, shape: Any, offset: int, dim1: int, dim2: int) -> Any:
    """Zeros with x on the diagonal of two dimensions.

    x: what `diagonal` gives for `shape`. Result: `shape`.
    """
    result = xp.zeros(tuple(shape), x.dtype)
    diagonal(xp, result, offset=offset, dim1=dim1, dim2=dim2)[...] = x
    return result


@op(
    torch="tril(input, diagonal=0)",
    inplace=True,
    linear=True,
    x=lambda xp, g, diagonal: xp.tril(g, diagonal=diagonal),
)
def tril(xp: Any, x: Any, *, diagonal: int = 0) -> Any:
    """The lower triangle of matrices, 0 above the diagonal.

    x: (..., m, n). Result: the same, a copy.
    """
    _refuse_vector("tril", x)
    return xp.tril(x, diagonal)


@op(
    torch="triu(input, diagonal=0)",
    inplace=True,
    linear=True,
    x=lambda xp, g, diagonal: xp.triu(g, diagonal=diagonal),
)
def triu(xp: Any, x: Any, *, diagonal: int = 0) -> Any:
    """The upper triangle of matrices, 0 below the diagonal.

    x: (..., m, n). Result: the same, a copy.
    """
    _refuse_vector("triu", x)
    return xp.triu(x, diagonal)


def _refuse_vector(name: str, x: Any) -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
