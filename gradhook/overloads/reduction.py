"""Reductions with several forms: max, min, std, var, prod, all, any, norm, median, and those made
of them.
"""

from __future__ import annotations

import builtins
from typing import Any

from gradhook import dtypes, return_types
from gradhook.ops.axes import wrap, wrap_all
from gradhook.overloads.checked import refuse
from gradhook.overloads.linalg_checks import with_norm
from gradhook.overloads.linalg_norms import matrix_norm
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = tuple(
    """
    max min std var std_mean var_mean prod all any norm median nanmedian aminmax nansum
    nanmean cummax cummin diff
""".split()
)
METHODS = tuple(
    """
    max min std var prod all any norm median nanmedian aminmax nansum nanmean cummax cummin
    diff sum_to_size
""".split()
)
PROPERTIES: tuple[str, ...] = ()


def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """max(x): the largest element, equal ones sharing the gradient.

    max(x, dim): return_types.max(values, indices). max(x, other): the elementwise larger one.
    input: any shape, real. Result: reduced shape, dtype of input; indices int64.
    """
    refuse("max", "input", 1, input)
    if isinstance(dim, Tensor) or other is not None:
        return ops.maximum(input, dim if other is None else other)
    if dim is None:
        return ops.amax(input)
    return return_types.max(*multi.max_dim(input, axis=dim, keepdims=keepdim))


def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """min(x): the smallest element, equal ones sharing the gradient.

    min(x, dim): return_types.min(values, indices). min(x, other): the elementwise smaller one.
    input: any shape, real. Result: reduced shape, dtype of input; indices int64.
    """
    refuse("min", "input", 1, input)
    if isinstance(dim, Tensor) or other is not None:
        return ops.minimum(input, dim if other is None else other)
    if dim is None:
        return ops.amin(input)
    return return_types.min(*multi.min_dim(input, axis=dim, keepdims=keepdim))


def _spread(dim: Any, unbiased: bool | None, correction: Any) -> tuple[Any, float]:
    """The dim and correction of the forms f(x, unbiased), f(x, dim, unbiased), f(x, dim,
    correction=c).
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        return dim, int(unbiased)
    return dim, 1 if correction is None else correction


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """Standard deviation over dim (all without), over n - correction (1).

    input: floating or complex. Result: real.
    """
    axis, c = _spread(dim, unbiased, correction)
    return ops.std(input, axis=axis, correction=c, keepdims=keepdim)


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """Variance over dim (all without), over n - correction (1).

    input: floating or complex. Result: real.
    """
    axis, c = _spread(dim, unbiased, correction)
    return ops.var(input, axis=axis, correction=c, keepdims=keepdim)


def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """(std, mean) over dim. Floating or complex."""
    axis, c = _spread(dim, unbiased, correction)
    spread, average = ops.std_mean(input, axis=axis, correction=c, keepdims=keepdim)
    return spread, average


def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """(var, mean) over dim. Floating or complex."""
    axis, c = _spread(dim, unbiased, correction)
    spread, average = ops.var_mean(input, axis=axis, correction=c, keepdims=keepdim)
    return spread, average


def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Product over dim (all without). Result: int64 for integers unless dtype says otherwise."""
    return ops.prod(input, axis=dim, keepdims=keepdim, dtype=dtypes.raw(dtype))


def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over dim are nonzero. Result: bool."""
    return ops.all(input, axis=dim, keepdims=keepdim) if dim != () else _truth(input)


def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element over dim is nonzero. Result: bool."""
    return ops.any(input, axis=dim, keepdims=keepdim) if dim != () else _truth(input)


def _truth(input: Tensor) -> Tensor:
    return ops.cast(input, dtype=dtypes.bool_)


def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """The p-norm over dim of input as a vector; "fro" is 2.

    Result: real. Errors: RuntimeError for integers.
    """
    if dtype is not None:
        input = ops.cast(input, dtype=dtype)
    with_norm(input)
    if p == "nuc":
        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    order = 2.0 if p in ("fro", None) else float(p)
    return ops.vector_norm(input, ord=order, axis=dim, keepdims=keepdim)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """median(x): the lower median.

    median(x, dim): return_types.median(values, indices). NaN if there is one.
    input: any shape, real. Result: reduced shape, dtype of input; indices int64.
    """
    if dim is None:
        return multi.median_dim(ops.reshape(input, shape=(-1,)), axis=0)[0]
    return return_types.median(*multi.median_dim(input, axis=dim, keepdims=keepdim))


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """As median, without NaN elements.

    input: any shape, real. Result: reduced shape, dtype of input; indices int64.
    """
    flat = input if dim is not None else ops.reshape(input, shape=(-1,))
    axis = 0 if dim is None else wrap(dim, input.ndim)
    values, order = multi.sort(flat, axis=axis)
    if flat.ndim == 0:
        return values if dim is None else return_types.median(values, order)
    count = ops.sum(ops.logical_not(ops.isnan(flat)), axis=axis, keepdims=True)
    middle = ops.floor_divide(ops.clip_low(ops.subtract(count, 1), 0), 2)
    picked, index = ops.gather(values, middle, axis=axis), ops.gather(order, middle, axis=axis)
    if not keepdim or dim is None:
        picked, index = ops.squeeze(picked, axis=axis), ops.squeeze(index, axis=axis)
    return picked if dim is None else return_types.median(picked, index)


def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> return_types.aminmax:
    """Smallest and largest element over dim (all without).

    input: any shape, real. Result: two of the reduced shape, dtype of input.
    """
    return return_types.aminmax(
        ops.amin(input, axis=dim, keepdims=keepdim), ops.amax(input, axis=dim, keepdims=keepdim)
    )


def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over dim with NaN as 0. Floating or complex."""
    held = ops.masked_fill(input, ops.isnan(input), value=0)
    return ops.sum(held, axis=dim, keepdims=keepdim, dtype=dtypes.raw(dtype))


def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over dim of the elements that are not NaN. Floating or complex.

    Errors: RuntimeError for other dtypes.
    """
    if input._a.dtype.kind in "biu":
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.dtype.title}; convert with .to(dtype)"
        )
    count = ops.sum(ops.logical_not(ops.isnan(input)), axis=dim, keepdims=keepdim)
    return ops.divide(nansum(input, dim, keepdim, dtype=dtype), count)


def cummax(input: Tensor, dim: int) -> return_types.cummax:
    """Running maximum along dim and the index that has it.

    Result: two of the shape of input, its dtype and int64.
    """
    return return_types.cummax(*multi.cummax(input, axis=dim))


def cummin(input: Tensor, dim: int) -> return_types.cummin:
    """Running minimum along dim and the index that has it.

    Result: two of the shape of input, its dtype and int64.
    """
    return return_types.cummin(*multi.cummin(input, axis=dim))


def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along dim, n times.

    prepend, append: joined on first. Result: dim n shorter. Any dtype but bool.
    Errors: RuntimeError for 0 dimensions and negative n.
    """
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    parts = [t for t in (prepend, input, append) if t is not None]
    x = ops.concat(*parts, axis=dim) if len(parts) > 1 else input
    axis = wrap(dim, x.ndim)
    lead = (slice(None),) * axis
    if n == 0:
        return ops.clone(x)
    for _ in range(builtins.min(n, x.shape[axis])):
        later = ops.slice_view(x, index=(*lead, slice(1, None)))
        earlier = ops.slice_view(x, index=(*lead, slice(0, builtins.max(x.shape[axis] - 1, 0))))
        kind = "logical_xor" if x._a.dtype.kind == "b" else "subtract"
        x = getattr(ops, kind)(later, earlier)
    return x


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum over what broadcasting `size` to the shape had repeated.

    Errors: RuntimeError when it does not broadcast.
    """
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    wrap_all(None, len(shape))
    try:
        return ops.sum_to(input, shape=tuple(shape))
    except (ValueError, RuntimeError) as error:
        raise RuntimeError(
            f"size {list(shape)} is not expandable to size {list(input.shape)}."
        ) from error
