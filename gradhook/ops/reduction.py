"""Reductions over dimensions: sums, means, extrema, norms, products, truth."""

from __future__ import annotations

from typing import Any

from gradhook.dtypes import accumulation, raw
from gradhook.ops.axes import count, plain, reduced, wrap, wrap_all
from gradhook.ops.shape import repeated
from gradhook.ops.table import composite, op


@op(
    torch=None,
    view=True,
    linear=True,
    x=lambda xp, g, axis, keepdims: xp.sum(g, axis=axis, keepdims=keepdims),
)
def expand_reduced(
    xp: Any, x: Any, *, shape: tuple[int, ...], axis: Any = None, keepdims: bool = False
) -> Any:
    """A reduction's result repeated to what it was reduced from.

    x: reduced `shape`. Result: `shape`, a view.
    """
    if x.ndim == 0 and type(x).__module__ == "numpy":
        return xp.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    return repeated(xp, x if keepdims else x.reshape(reduced(shape, axis)), shape)


@op(
    torch="sum(input, dim=None, keepdim=False, *, dtype=None)",
    linear=True,
    x=lambda xp, g, x_shape, axis, keepdims: xp.expand_reduced(
        g, shape=x_shape, axis=axis, keepdims=keepdims
    ),
)
def sum(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Sum over `axis` (all without).

    x: any shape. Result: reduced shape; int64 for integers and bool, float16 is summed in float32.
    """
    if dtype is not None:
        x = x.astype(raw(dtype))
    axis = plain(axis, x.ndim)
    kind = x.dtype.kind
    if kind in "biu":
        return x.sum(axis=axis, keepdims=keepdims, dtype=dtype or "i8")
    if x.dtype.itemsize == 2:
        return x.sum(axis=axis, keepdims=keepdims, dtype="f4").astype(x.dtype)
    return x.sum(axis=axis, keepdims=keepdims)


@op(torch=None, linear=True, x=lambda xp, g, x_shape: xp.broadcast_to(g, shape=x_shape))
def sum_to(xp: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    """x summed over what broadcasting `shape` to its shape had repeated.

    Result: `shape`, dtype of x.

    Errors: ValueError when `shape` does not broadcast to x.shape.
    """
    extra = x.ndim - len(shape)
    wide = accumulation(x.dtype) if x.dtype.itemsize == 2 else None
    if extra > 0 and x.shape[extra:] == shape:  # a bias: leading axes only
        out = x.sum(axis=0 if extra == 1 else tuple(range(extra)), dtype=wide)
    else:
        repeated_axes = [k + extra for k, n in enumerate(shape) if n == 1 != x.shape[k + extra]]
        axes = (*range(extra), *repeated_axes)
        out = x.sum(axis=axes, keepdims=True, dtype=wide).reshape(shape)
    return out if wide is None else out.astype(x.dtype)


@composite()
def expand_mean(
    xp: Any, x: Any, *, shape: tuple[int, ...], axis: Any = None, keepdims: bool = False
) -> Any:
    """`expand_reduced`, divided by the number of elements reduced.

    x: reduced `shape`. Result: `shape`.
    """
    return xp.expand_reduced(x / count(shape, axis), shape=shape, axis=axis, keepdims=keepdims)


@op(
    torch="mean(input, dim=None, keepdim=False, *, dtype=None)",
    linear=True,
    x=lambda xp, g, x_shape, axis, keepdims: xp.expand_mean(
        g, shape=x_shape, axis=axis, keepdims=keepdims
    ),
)
def mean(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Mean over `axis` (all without), NaN of nothing.

    x: floating or complex. Result: reduced shape, dtype of x.

    Errors: RuntimeError for integers and bool.
    """
    if dtype is not None:
        x = x.astype(raw(dtype))
    if x.dtype.kind not in "fc":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            "complex dtype. "
            f"Got: {'Long' if x.dtype == 'i8' else x.dtype.name}"
        )
    n = x.size if axis is None else count(x.shape, axis)
    if x.dtype.itemsize == 2:
        total = x.sum(axis=plain(axis, x.ndim), keepdims=keepdims, dtype="f4")
        return (total / n).astype(x.dtype)
    return x.sum(axis=plain(axis, x.ndim), keepdims=keepdims) / n


@composite(fresh=True)
def extremum_vjp(xp: Any, g: Any, x: Any, out: Any, *, axis: Any, keepdims: bool) -> Any:
    """g shared evenly by the elements of x that equal the extremum.

    g, out: the reduced shape. Result: that of x.
    """
    shape = tuple(x.shape)
    value = xp.expand_reduced(out, shape=shape, axis=axis, keepdims=keepdims)
    hit = xp.logical_or(x == value, xp.logical_and(xp.isnan(x), xp.isnan(value)))
    share = xp.cast(hit, dtype=g.dtype)
    total = xp.expand_reduced(
        xp.sum(share, axis=axis, keepdims=True), shape=shape, axis=axis, keepdims=True
    )
    return xp.expand_reduced(g, shape=shape, axis=axis, keepdims=keepdims) * (share / total)


def _refuse_empty(name: str, x: Any, axis: Any) -> None:
    if x.size == 0 and (axis is None or count(x.shape, axis) == 0):
        if axis is None:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


@op(
    torch="amax(input, dim=(), keepdim=False)",
    x=lambda xp, g, x, out, axis, keepdims: xp.extremum_vjp(
        g, x, out, axis=axis, keepdims=keepdims
    ),
    takes="biuf",
)
def amax(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Largest element over `axis` (all without), NaN if there is one; equal ones share the
    gradient. x: real.

    Result: reduced shape, dtype of x. Errors: IndexError or RuntimeError when nothing is reduced.
    """
    _refuse_empty("amax", x, None if axis == () else axis)
    return x.max(axis=wrap_all(axis, x.ndim), keepdims=keepdims)


@op(
    torch="amin(input, dim=(), keepdim=False)",
    x=lambda xp, g, x, out, axis, keepdims: xp.extremum_vjp(
        g, x, out, axis=axis, keepdims=keepdims
    ),
    takes="biuf",
)
def amin(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Smallest element over `axis` (all without), NaN if there is one; equal ones share the
    gradient. x: real.

    Result: reduced shape, dtype of x. Errors: IndexError or RuntimeError when nothing is reduced.
    """
    _refuse_empty("amin", x, None if axis == () else axis)
    return x.min(axis=wrap_all(axis, x.ndim), keepdims=keepdims)


@op(torch="argmax(input, dim=None, keepdim=False)", x=None, takes="biuf")
def argmax(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Index of the first largest element over `axis`, of the flattened x without.

    x: real. Result: int64.
    """
    return _argument(xp, "argmax", x, axis, keepdims)


@op(torch="argmin(input, dim=None, keepdim=False)", x=None, takes="biuf")
def argmin(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Index of the first smallest element over `axis`, of the flattened x without.

    x: real. Result: int64.
    """
    return _argument(xp, "argmin", x, axis, keepdims)


def _argument(xp: Any, name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    _refuse_empty(name, x, axis)
    if x.ndim == 0:
        return xp.zeros((), "i8") if axis is None or wrap(axis, 0) == 0 else None
    axis = None if axis is None else wrap(axis, x.ndim)
    found = getattr(xp, name)(x, axis=axis)
    if keepdims:
        return xp.asarray(found).reshape(reduced(x.shape, axis))
    return found


@composite(fresh=True)
def prod_vjp(xp: Any, g: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    """Gradient of prod: g times the product of the others, right where elements are 0.

    Result: shape of x.
    """
    shape = tuple(x.shape)
    expanded = xp.expand_reduced(g, shape=shape, axis=axis, keepdims=keepdims)
    if axis is None:
        flat = xp.reshape(x, shape=(count(shape, None),))
        return expanded * xp.reshape(xp.product_of_others(flat, axis=0), shape=shape)
    return expanded * xp.product_of_others(x, axis=axis)


@op(torch=None, x=lambda xp, g, x, axis, keepdims: xp.prod_vjp(g, x, axis=axis, keepdims=keepdims))
def prod(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Product over one dimension (all without).

    x: any shape. Result: reduced shape, int64 for integers and bool.
    """
    if dtype is not None:
        x = x.astype(raw(dtype))
    axes = wrap_all(axis, x.ndim)
    wide = "i8" if x.dtype.kind in "biu" and dtype is None else x.dtype
    return xp.prod(x, axis=axes, keepdims=keepdims, dtype=wide)


@op(torch=None, x=None)
def all(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements over `axis` are nonzero.

    x: any shape. Result: reduced shape, bool (uint8 for uint8).
    """
    found = xp.all(x, axis=wrap_all(axis, x.ndim), keepdims=keepdims)
    return found.astype("u1") if x.dtype == "u1" else found


@op(torch=None, x=None)
def any(xp: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element over `axis` is nonzero.

    x: any shape. Result: reduced shape, bool (uint8 for uint8).
    """
    found = xp.any(x, axis=wrap_all(axis, x.ndim), keepdims=keepdims)
    return found.astype("u1") if x.dtype == "u1" else found


@op(torch="count_nonzero(input, dim=None)", x=None)
def count_nonzero(xp: Any, x: Any, *, axis: Any = None) -> Any:
    """How many elements over `axis` are nonzero. x: any shape. Result: reduced shape, int64."""
    return (x != 0).sum(axis=wrap_all(axis, x.ndim), dtype="i8")


@composite(fresh=True)
def norm_vjp(xp: Any, g: Any, x: Any, out: Any, *, ord: float, axis: Any, keepdims: bool) -> Any:
    """Gradient of vector_norm, 0 at 0. g, out: the reduced shape. Result: shape and dtype of x."""
    shape = tuple(x.shape)

    def expand(value: Any) -> Any:
        return xp.expand_reduced(value, shape=shape, axis=axis, keepdims=keepdims)

    if ord == 0:
        return xp.zeros_like(x)
    if ord == 1:
        return expand(g) * xp.sgn(x)
    if ord == 2:
        return expand(g) * xp.masked_fill(x / expand(out), expand(out) == 0, value=0)
    size = xp.absolute(x)
    if ord in (float("inf"), float("-inf")):
        return xp.extremum_vjp(g, size, out, axis=axis, keepdims=keepdims) * xp.sgn(x)
    if ord < 2:
        powers = xp.sgn(x) * xp.masked_fill(size ** (ord - 1), x == 0, value=0)
    else:
        powers = x * size ** (ord - 2)
    scale = (
        g * out ** (1 - ord) if ord < 1 else xp.masked_fill(g / out ** (ord - 1), out == 0, value=0)
    )
    return expand(scale) * powers


@op(
    torch=None,
    x=lambda xp, g, x, out, ord, axis, keepdims: xp.norm_vjp(
        g, x, out, ord=ord, axis=axis, keepdims=keepdims
    ),
)
def vector_norm(
    xp: Any, x: Any, *, ord: float = 2, axis: Any = None, keepdims: bool = False
) -> Any:
    """(sum |x|^ord)^(1/ord) over `axis`; ord inf, -inf, 0 as limits.

    x: floating or complex. Result: reduced, real.
    """
    axes = wrap_all(axis, x.ndim)
    size = xp.abs(x)
    if ord == float("inf"):
        return size.max(axis=axes, keepdims=keepdims, **({"initial": 0} if x.size == 0 else {}))
    if ord == float("-inf"):
        return size.min(axis=axes, keepdims=keepdims)
    if ord == 0:
        return (size != 0).sum(axis=axes, keepdims=keepdims, dtype=size.dtype)
    wide = accumulation(size.dtype)
    if ord == 1:
        return size.sum(axis=axes, keepdims=keepdims, dtype=wide).astype(size.dtype, copy=False)
    if ord == 2:
        return xp.sqrt((size * size).sum(axis=axes, keepdims=keepdims, dtype=wide)).astype(
            size.dtype, copy=False
        )
    return ((size**ord).sum(axis=axes, keepdims=keepdims, dtype=wide) ** (1 / ord)).astype(
        size.dtype, copy=False
    )
