"""Shapes: reshape, permute, expand, squeeze, diagonal. Most results are views of the input."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradhook.ops.axes import inverse, wrap, wrap_all
from gradhook.ops.table import composite, op


def _target(size: int, shape: Sequence[int]) -> tuple[int, ...]:
    """`shape` with -1 resolved for `size` elements. Errors: RuntimeError with PyTorch's text."""
    shape = tuple(int(n) for n in shape)
    known = prod(n for n in shape if n != -1)
    if any(n < -1 for n in shape):
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if -1 in shape:
        if known == 0 and size == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
                "unspecified dimension "
                "size -1 can be any value and is ambiguous"
            )
        if known and size % known == 0:
            return tuple(size // known if n == -1 else n for n in shape)
    elif known == size:
        return shape
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")


def repeated(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """x broadcast to `shape`, as a view. NumPy's broadcast_to costs eight multiplies, this one."""
    extra = len(shape) - x.ndim
    if type(x).__module__ == "numpy" and extra >= 0 and x.flags.c_contiguous:
        strides = (0,) * extra
        for n, have, step in zip(shape[extra:], x.shape, x.strides, strict=True):
            if have != 1 and have != n:
                break
            strides += (0 if have == 1 else step,)
        if len(strides) == len(shape) and 0 not in shape:
            return xp.ndarray(shape, x.dtype, x, 0, strides)
    result = xp.broadcast_to(x, shape)
    if type(x).__module__ == "numpy" and x.flags.writeable:
        result.flags.writeable = True
    return result


@op(
    torch="reshape(input, *shape)",
    view=True,
    linear=True,
    x=lambda xp, g, x_shape: xp.reshape(g, shape=x_shape),
)
def reshape(xp: Any, x: Any, *, shape: Any) -> Any:
    """x in another shape of as many elements; one -1 is inferred.

    Result: `shape`, a view where strides allow.

    Errors: RuntimeError when the number of elements differs.
    """
    try:
        return x.reshape(shape)
    except ValueError:
        return x.reshape(_target(x.size, shape))


@op(torch=None, view=True, linear=True, x=lambda xp, g, x_shape: xp.reshape(g, shape=x_shape))
def view(xp: Any, x: Any, *, shape: Any) -> Any:
    """`reshape` that never copies. Result: `shape`, a view.

    Errors: RuntimeError when the number of elements differs or the strides do not allow a view.
    """
    result = reshape(xp, x, shape=shape)
    if result.size and not x.flags.c_contiguous and not xp.may_share_memory(result, x):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across "
            "two contiguous subspaces). Use .reshape(...) instead."
        )
    return result


@composite()
def unpermute_dims(xp: Any, x: Any, *, dims: Any) -> Any:
    """Undo `permute_dims(dims=dims)`. x: any shape. Result: a view."""
    return xp.permute_dims(x, dims=inverse(dims))


@op(
    torch="permute(input, *dims)",
    view=True,
    linear=True,
    x=lambda xp, g, dims: xp.unpermute_dims(g, dims=dims),
)
def permute_dims(xp: Any, x: Any, *, dims: Any) -> Any:
    """Dimensions in the order `dims`, a view.

    x: any shape. Errors: RuntimeError or IndexError for a bad order.
    """
    try:
        return x.transpose(dims)
    except ValueError as error:
        if len(dims) != x.ndim:
            raise RuntimeError(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the "
                "length of the desired ordering of dimensions i.e. input.dim() = "
                f"{x.ndim} is not equal to len(dims) = {len(dims)}"
            ) from error
        for d in dims:
            wrap(int(d), x.ndim)
        raise RuntimeError("permute(): duplicate dims are not allowed.") from error


@op(
    torch="transpose(input, dim0, dim1)",
    aliases=("swapaxes", "swapdims"),
    view=True,
    linear=True,
    x=lambda xp, g, dim0, dim1: xp.transpose(g, dim0=dim0, dim1=dim1),
)
def transpose(xp: Any, x: Any, *, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged, a view.

    x: any shape. Errors: IndexError for a dimension out of range.
    """
    dim0, dim1 = wrap(dim0, x.ndim), wrap(dim1, x.ndim)
    return x.swapaxes(dim0, dim1) if x.ndim else x.reshape(())


@op(torch=None, view=True, linear=True, x=lambda xp, g: xp.matrix_transpose(g))
def matrix_transpose(xp: Any, x: Any) -> Any:
    """The last two dimensions exchanged, a view.

    x: (..., m, n). Result: (..., n, m). Errors: RuntimeError below 2.
    """
    if x.ndim == 2:
        return x.T
    if x.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {x.ndim}-D "
            "tensor."
        )
    return x.swapaxes(-1, -2)


@op(torch="t(input)", view=True, linear=True, x=lambda xp, g: xp.t(g))
def t(xp: Any, x: Any) -> Any:
    """The transpose of a matrix, a view; a vector as it is.

    x: 0 to 2 dimensions. Errors: RuntimeError above.
    """
    if x.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    return x.T


@composite(torch="movedim(input, source, destination)", aliases=("moveaxis",))
def movedim(xp: Any, x: Any, *, source: Any, destination: Any) -> Any:
    """Dimensions moved to other places, the rest in order, a view.

    source, destination: ints or tuples of one length.

    Errors: IndexError for a dimension out of range, RuntimeError for repeated ones or lengths that
    differ.
    """
    old = [source] if isinstance(source, int) else list(source)
    new = [destination] if isinstance(destination, int) else list(destination)
    if len(old) != len(new):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({old} dims) should contain the same number of dims as destination ({new} dims)"
        )
    old, new = [wrap(d, x.ndim) for d in old], [wrap(d, x.ndim) for d in new]
    for name, found in (("source", old), ("destination", new)):
        if len(set(found)) != len(found):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({found})")
    order = [d for d in range(x.ndim) if d not in old]
    for place, d in sorted(zip(new, old, strict=True)):
        order.insert(place, d)
    return xp.permute_dims(x, dims=tuple(order))


@op(
    torch="unsqueeze(input, dim)",
    view=True,
    linear=True,
    x=lambda xp, g, x_shape: xp.reshape(g, shape=x_shape),
)
def expand_dims(xp: Any, x: Any, *, axis: int) -> Any:
    """x with a dimension of 1 put in at `axis`, a view.

    Errors: IndexError when axis is out of range.
    """
    axis = wrap(axis, x.ndim + 1)
    return x[(*(slice(None),) * axis, None)]


@op(
    torch="squeeze(input, dim=None)",
    view=True,
    linear=True,
    x=lambda xp, g, x_shape: xp.reshape(g, shape=x_shape),
)
def squeeze(xp: Any, x: Any, *, axis: Any = None) -> Any:
    """x without its dimensions of 1, or those of them in `axis` (longer ones stay), a view."""
    axes = () if isinstance(axis, tuple | list) and not axis else wrap_all(axis, x.ndim)
    return x.squeeze(tuple(a for a in axes if x.shape[a] == 1))


@op(torch="broadcast_to(input, size)", view=True, linear=True, x=lambda xp, g: g)
def broadcast_to(xp: Any, x: Any, *, shape: Any = (), size: Any = None) -> Any:
    """x repeated without copying.

    x: broadcasts to the shape. Result: `shape` (`size`), a view with strides of 0.
    """
    return repeated(xp, x, tuple(shape if size is None else size))


@composite(torch="expand(input, *size)")
def expand(xp: Any, x: Any, *, size: Any) -> Any:
    """Dimensions of 1 repeated to `size`, a view; -1 keeps a dimension, new ones come first.

    Errors: RuntimeError when a dimension is neither 1 nor the size asked for.
    """
    old = tuple(x.shape)
    extra = len(size) - len(old)
    if extra < 0:
        raise RuntimeError(
            f"expand({list(old)}, size={list(size)}): the number of sizes provided ({len(size)}) "
            "must be greater or "
            f"equal to the number of dimensions in the tensor ({len(old)})"
        )
    shape = []
    for k, n in enumerate(size):
        have = old[k - extra] if k >= extra else 1
        if n == -1 and k < extra:
            raise RuntimeError(
                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
                f"dimension {k}"
            )
        if n not in (-1, have) and have != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({have}) at "
                "non-singleton "
                f"dimension {k}.  Target sizes: {list(size)}.  Tensor sizes: {list(old)}"
            )
        shape.append(have if n == -1 else int(n))
    return xp.broadcast_to(x, shape=tuple(shape))


@composite(torch="flatten(input, start_dim=0, end_dim=-1)")
def flatten(xp: Any, x: Any, *, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions start_dim to end_dim in one, a view where possible; a 0-d x gets one dimension.

    Errors: IndexError for a dimension out of range, RuntimeError when start_dim comes after
    end_dim.
    """
    shape = tuple(x.shape)
    start, end = wrap(start_dim, len(shape)), wrap(end_dim, len(shape))
    if not shape:
        return xp.reshape(x, shape=(1,))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return x
    return xp.reshape(x, shape=(*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite(torch="unflatten(input, dim, sizes)")
def unflatten(xp: Any, x: Any, *, axis: int, sizes: Any) -> Any:
    """One dimension split into `sizes` (one -1 is inferred), a view.

    Errors: RuntimeError when they do not fit.
    """
    shape = tuple(x.shape)
    axis = wrap(axis, len(shape))
    if len(sizes) == 0:
        raise RuntimeError("unflatten: sizes must be non-empty")
    sizes = tuple(int(n) for n in sizes)
    known = prod(n for n in sizes if n != -1)
    if (
        (known == 0 and shape[axis])
        or (known and shape[axis] % known)
        or (-1 not in sizes and known != shape[axis])
    ):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} "
            f"({shape[axis]}) in "
            "the input tensor"
        )
    sizes = tuple(shape[axis] // known if n == -1 else n for n in sizes)
    return xp.reshape(x, shape=(*shape[:axis], *sizes, *shape[axis + 1 :]))


@composite(torch="ravel(input)")
def ravel(xp: Any, x: Any) -> Any:
    """x in one dimension, a view where possible."""
    return xp.reshape(x, shape=(-1,) if prod(x.shape) else (0,))
