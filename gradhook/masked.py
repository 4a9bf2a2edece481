"""Reductions and normalizations over the elements that a mask keeps: `gradhook.masked.sum`, `mean`,
`softmax`, ... Masked-out elements count as if they weren't there, and get gradients of 0.

mask: bool (or anything that is nonzero where kept), broadcastable to input, None for all.
dim: a dimension, a tuple of them, None or () for all. dtype: input is cast to it first.
A slice with nothing kept gives the reduction's identity (sum 0, prod 1, amax -inf), NaN where
there is none. Source: torch.masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradhook import dtypes
from gradhook.ops.axes import count, wrap, wrap_all
from gradhook.ops.documentation import sourced
from gradhook.overloads.arguments import tensors_only
from gradhook.overloads.recorded import ops
from gradhook.overloads.reduction import nanmedian
from gradhook.tensor import Tensor

Mask = Tensor | None


def _kept(input: Tensor, mask: Mask) -> Mask:
    """The mask as bool in the shape of input. Errors: IndexError for more dimensions than input."""
    if mask is None:
        return None
    if mask.ndim > input.ndim:
        raise IndexError(
            f"masked: expected a mask that broadcasts to input of {input.ndim} dimensions, found "
            f"one of {mask.ndim}"
        )
    return ops.expand(ops.cast(mask, dtype=dtypes.bool_), size=tuple(input.shape))


def _filled(input: Tensor, kept: Mask, value: float) -> Tensor:
    """input with a number where it is masked out."""
    return input if kept is None else ops.masked_fill(input, ops.logical_not(kept), value=value)


def _cast(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else ops.cast(input, dtype=dtype)


def _floating(name: str, input: Tensor) -> None:
    if input._a.dtype.kind not in "fc":
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {input.dtype}"
        )


def _lowest(input: Tensor, sign: int) -> Any:
    """The identity of amax (sign -1) and amin (sign 1) for a dtype."""
    d = input._a.dtype
    if d.kind == "f":
        return sign * math.inf
    if d.kind not in "iu":
        raise NotImplementedError(f"identity of {'amax' if sign < 0 else 'amin'} on {input.dtype}")
    bits = 8 * d.itemsize - (d.kind == "i")
    return 2**bits - 1 if sign > 0 else -(2**bits) if d.kind == "i" else 0


def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Sum of what is kept over dim. Result: reduced shape; int64 for integers."""
    x = _filled(_cast(input, dtype), _kept(input, mask), 0)
    return ops.sum(x, axis=dim, keepdims=keepdim, dtype=dtypes.raw(dtype))


def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Product of what is kept over dim. Result: reduced shape; int64 for integers."""
    x = _filled(_cast(input, dtype), _kept(input, mask), 1)
    if not x.ndim:
        return ops.prod(x, axis=dim or None, keepdims=keepdim, dtype=dtypes.raw(dtype))
    for axis in sorted(wrap_all(dim, input.ndim), reverse=True):
        x = ops.prod(x, axis=axis, keepdims=keepdim, dtype=dtypes.raw(dtype))
    return x


def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Largest element kept over dim, equal ones sharing the gradient. Result: reduced shape.

    Real.
    """
    x = _cast(input, dtype)
    return ops.amax(_filled(x, _kept(x, mask), _lowest(x, -1)), axis=dim, keepdims=keepdim)


def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Smallest element kept over dim, equal ones sharing the gradient. Result: reduced shape.

    Real.
    """
    x = _cast(input, dtype)
    return ops.amin(_filled(x, _kept(x, mask), _lowest(x, 1)), axis=dim, keepdims=keepdim)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Mask = None,
) -> Tensor:  # fmt: skip
    """Index of the first largest element kept. Result: reduced shape, int64."""
    x = _cast(input, dtype)
    return ops.argmax(_filled(x, _kept(x, mask), _lowest(x, -1)), axis=dim, keepdims=keepdim)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Mask = None,
) -> Tensor:  # fmt: skip
    """Index of the first smallest element kept. Result: reduced shape, int64."""
    x = _cast(input, dtype)
    return ops.argmin(_filled(x, _kept(x, mask), _lowest(x, 1)), axis=dim, keepdims=keepdim)


def _number(x: Tensor, kept: Mask, dim: Any, keepdim: bool) -> Any:
    """How many elements are kept over dim."""
    if kept is None:
        return count(tuple(x.shape), dim)
    return ops.sum(kept, axis=dim, keepdims=keepdim)


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Mean of what is kept over dim, NaN of nothing. Errors: ValueError for integers."""
    x = _cast(input, dtype)
    _floating("mean", x)
    kept = _kept(x, mask)
    total = ops.sum(_filled(x, kept, 0), axis=dim, keepdims=keepdim)
    return ops.divide(total, _number(x, kept, dim, keepdim))


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Lower median of what is kept (and no NaN) along dim, NaN of nothing.

    Errors: ValueError for integers where a slice keeps nothing.
    """
    x = _cast(input, dtype)
    kept = _kept(x, mask)
    if x._a.dtype.kind == "f":
        return nanmedian(_filled(x, kept, math.nan), dim, keepdim)[0]  # type: ignore[no-any-return]
    if kept is not None and not bool(ops.all(ops.any(kept, axis=dim))):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    wide = _filled(ops.cast(x, dtype=dtypes.float64), kept, math.nan)
    return ops.cast(nanmedian(wide, dim, keepdim)[0], dtype=x.dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False,
    dtype: Any = None, mask: Mask = None,
) -> Tensor:  # fmt: skip
    """Vector norm of what is kept over dim. Result: reduced shape, real."""
    order = 2.0 if ord is None else float(ord)
    x = _cast(input, dtype)
    _floating("norm", x)
    x = _filled(x, _kept(x, mask), math.inf if order < 0 else 0)
    return ops.vector_norm(x, ord=order, axis=dim, keepdims=keepdim)


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None, mask: Mask = None,
) -> Tensor:  # fmt: skip
    """Variance of what is kept over dim, over the number kept less correction (1).

    Integers count as the default dtype. Errors: RuntimeError for unbiased and correction at once.
    """
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    less = float(unbiased) if unbiased is not None else 1 if correction is None else correction
    x = _cast(input, dtype)
    if x._a.dtype.kind not in "fc":
        x = ops.cast(x, dtype=dtypes.get_default_dtype())
    kept = _kept(x, mask)
    held = _filled(x, kept, 0)
    centre = ops.divide(ops.sum(held, axis=dim, keepdims=True), _number(x, kept, dim, True))
    apart = _filled(ops.subtract(held, centre), kept, 0)
    squares = ops.real(ops.multiply(apart, ops.conj(apart))) if x.is_complex() else None
    squares = ops.multiply(apart, apart) if squares is None else squares
    divisor = ops.subtract(_tensor(_number(x, kept, dim, keepdim), x), less)
    return ops.divide(ops.sum(squares, axis=dim, keepdims=keepdim), ops.clip_low(divisor, 0))


def _tensor(n: Any, like: Tensor) -> Tensor:
    """A count as a real tensor of like's precision."""
    real = like._a.real.dtype
    if isinstance(n, Tensor):
        return ops.cast(n, dtype=real)
    return ops.fill(ops.cast(ops.zeros_like(ops.sum(like.detach())), dtype=real), value=n)


def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None, mask: Mask = None,
) -> Tensor:  # fmt: skip
    """Square root of var, with its parameters. Result: reduced shape, real."""
    return ops.sqrt(
        var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    )


def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """log of the sum of exp over what is kept, -inf of nothing.

    Result: reduced shape, floating or complex.
    """
    x = _cast(input, dtype)
    x = x if x._a.dtype.kind in "fc" else ops.cast(x, dtype=dtypes.get_default_dtype())
    return ops.logsumexp(
        _filled(x, _kept(x, mask), -math.inf), axis=wrap_all(dim, x.ndim), keepdims=keepdim
    )


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Mask = None,
    other_mask: Mask = None,
) -> Tensor:  # fmt: skip
    """log(exp(input) + exp(other)), a masked-out element counting as -inf. Result: broadcast.

    Floating or complex.
    """
    x, y = _cast(input, dtype), _cast(other, dtype)
    return ops.logaddexp(
        _filled(x, _kept(x, input_mask), -math.inf), _filled(y, _kept(y, other_mask), -math.inf)
    )


def _along(
    name: str, identity: float, doc: str, before: Callable[[Tensor], Tensor] | None = None
) -> Callable[..., Tensor]:
    """A function along one dimension: its op on input with the identity where masked out."""

    def function(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
        wrap(dim, input.ndim)
        x = _filled(_cast(input, dtype), _kept(input, mask), identity)
        found: Tensor = getattr(ops, name)(x if before is None else before(x), axis=dim)
        return found

    function.__name__ = function.__qualname__ = "softmin" if before else name
    function.__doc__ = doc
    return function


cumsum = _along(
    "cumsum", 0, "Running sum of what is kept along dim. Result: as input, int64 of ints."
)
cumprod = _along(
    "cumprod", 1, "Running product of what is kept along dim. Result: as input, int64 of ints."
)
softmax = _along(
    "softmax",
    -math.inf,
    "softmax along dim over what is kept, 0 elsewhere; NaN where nothing is. Floating.",
)
log_softmax = _along(
    "log_softmax",
    -math.inf,
    "log of softmax along dim, -inf where masked out; NaN where nothing is kept. Floating.",
)
softmin = _along(
    "softmax",
    math.inf,
    "softmax(-input) along dim over what is kept. Floating, shape as input.",
    lambda x: ops.negative(x),
)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
    mask: Mask = None,
) -> Tensor:  # fmt: skip
    """input over the norm (at least eps) of what is kept along dim, 0 where masked out.

    Floating or complex.
    """
    x = _cast(input, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return ops.divide(_filled(x, _kept(x, mask), 0), ops.clip_low(size, eps))


__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip
sourced(((name, globals()[name]) for name in __all__), "masked.")
globals().update({name: tensors_only(globals()[name], f"masked.{name}") for name in __all__})
