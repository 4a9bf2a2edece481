"""Joining and splitting tensors, and repeating them."""

from __future__ import annotations

from typing import Any

from gradhook.ops.axes import wrap
from gradhook.ops.table import composite, op


@composite()
def split_shapes(xp: Any, x: Any, *, shapes: Any, axis: int) -> Any:
    """x cut into pieces of these shapes along `axis`: undoes `concat`. Result: a tuple of views."""
    ndim = len(x.shape)
    sizes = tuple(s[axis] if len(s) == ndim else 0 for s in shapes)
    pieces = xp.split(x, sizes=sizes, axis=axis)
    return tuple(
        p if len(s) == ndim else xp.reshape(p, shape=s) for p, s in zip(pieces, shapes, strict=True)
    )


@op(
    torch=None,
    promote="arith",
    linear=True,
    tensors=lambda xp, g, tensors_shape, axis: xp.split_shapes(g, shapes=tensors_shape, axis=axis),
)
def concat(xp: Any, *tensors: Any, axis: int = 0) -> Any:
    """Tensors joined along a dimension.

    tensors: one shape but for `axis`, or (0,), which is left out.

    Result: the promoted dtype. Errors: RuntimeError when the shapes do not fit.
    """
    try:
        return xp.concatenate(tensors, axis=axis)
    except (ValueError, TypeError) as error:  # CuPy: TypeError for 0-d arrays
        ndim = max(t.ndim for t in tensors)
        if ndim == 0:
            raise RuntimeError(
                "zero-dimensional tensor (at position 0) cannot be concatenated"
            ) from error
        if isinstance(error, TypeError):
            raise
        axis = wrap(axis, ndim)
        kept = [t for t in tensors if t.shape != (0,)]
        if len(kept) < len(tensors) and ndim > 1:
            return concat(xp, *kept, axis=axis)
        shapes = ", ".join(str(list(t.shape)) for t in tensors)
        raise RuntimeError(
            f"Sizes of tensors must match except in dimension {axis}, found {shapes}"
        ) from error


@op(torch=None, promote="arith", linear=True, tensors=lambda xp, g, axis: xp.unbind(g, axis=axis))
def stack(xp: Any, *tensors: Any, axis: int = 0) -> Any:
    """Tensors along a new dimension.

    tensors: one shape. Result: promoted dtype. Errors: RuntimeError when they differ.
    """
    axis = wrap(axis, tensors[0].ndim + 1)
    for k, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at "
                "entry 0 and "
                f"{list(t.shape)} at entry {k}"
            )
    return xp.stack(tensors, axis=axis)


@op(
    torch=None,
    n_outputs=None,
    view=True,
    linear=True,
    x=lambda xp, g, axis: xp.concat(*g, axis=axis),
)
def split(xp: Any, x: Any, *, sizes: tuple[int, ...], axis: int = 0) -> tuple[Any, ...]:
    """x cut along `axis` into pieces of these sizes, views.

    sizes: sum to the dimension. Errors: RuntimeError.
    """
    axis = wrap(axis, x.ndim)
    starts, at = [], 0
    for n in sizes:
        starts.append((at, at + n))
        at += n
    if at != x.shape[axis]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {x.shape[axis]} (input "
            "tensor's size at "
            f"dimension {axis}), but got split_sizes={list(sizes)}"
        )
    lead = (slice(None),) * axis
    return tuple(x[(*lead, slice(a, b))] for a, b in starts)


@op(
    torch="unbind(input, dim=0)",
    n_outputs=None,
    view=True,
    linear=True,
    x=lambda xp, g, axis: xp.stack(*g, axis=axis),
)
def unbind(xp: Any, x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """x cut along `axis` into its slices, views without that dimension.

    x: at least one dimension.
    """
    if x.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axis = wrap(axis, x.ndim)
    lead = (slice(None),) * axis
    return tuple(x[(*lead, k, ...)] for k in range(x.shape[axis]))


@composite(torch="tile(input, *dims)")
def tile(xp: Any, x: Any, *, dims: Any) -> Any:
    """x repeated dims[k] times along each dimension; missing ones count 1.

    Result: dtype of x, a copy.
    """
    dims = (1,) * (len(x.shape) - len(dims)) + tuple(dims)
    return xp.repeat(x, repeats=dims)


@composite(torch="repeat(input, *repeats)")
def repeat(xp: Any, x: Any, *, repeats: Any) -> Any:
    """x repeated repeats[k] times along each dimension, new ones first. Result: dtype of x, a copy.

    Errors: RuntimeError when there are fewer numbers than dimensions.
    """
    shape = tuple(x.shape)
    if len(repeats) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    if any(n < 0 for n in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(repeats)}")
    shape = (1,) * (len(repeats) - len(shape)) + shape
    if not shape:
        return xp.clone(x)
    pairs = [n for r, s in zip(repeats, shape, strict=True) for n in (int(r), s)]
    ones = [n for s in shape for n in (1, s)]
    wide = xp.broadcast_to(xp.reshape(x, shape=tuple(ones)), shape=tuple(pairs))
    return xp.reshape(
        xp.clone(wide), shape=tuple(int(r) * s for r, s in zip(repeats, shape, strict=True))
    )


@op(
    torch=None,
    view=True,
    linear=True,
    x=lambda xp, g, x_shape, size, step, axis: xp.fold_windows(
        g, shape=x_shape, size=size, step=step, axis=axis
    ),
)
def windows(xp: Any, x: Any, *, size: int, step: int, axis: int) -> Any:
    """Windows of `size` taken every `step` along `axis` (`Tensor.unfold`).

    x: any shape. Result: the windows along `axis`, a new last dimension of `size`; a view.
    """
    if x.ndim == 0:
        return x.reshape(1)[:size]
    shape, strides = list(x.shape), list(x.strides)
    shape[axis] = (shape[axis] - size) // step + 1
    strides[axis] *= step
    return xp.lib.stride_tricks.as_strided(x, (*shape, size), (*strides, x.strides[axis]))


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, size, step, axis: xp.windows(g, size=size, step=step, axis=axis),
)
def fold_windows(xp: Any, x: Any, *, shape: Any, size: int, step: int, axis: int) -> Any:
    """The sum of windows laid back where `windows` took them.

    x: windows of `shape`. Result: `shape`.
    """
    if len(shape) == 0:
        return x.reshape(())
    result = xp.zeros(tuple(shape), x.dtype)
    lead = (slice(None),) * axis
    for k in range(size):
        stop = k + step * (x.shape[axis] - 1) + 1
        result[(*lead, slice(k, stop, step))] += x[..., k]
    return result
