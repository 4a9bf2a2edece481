"""In-place methods that need more than a table op: copy_, fill_, zero_, masked_fill_, add_ with
alpha, index_put_, ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradhook import indexing
from gradhook.autograd.inplace import check_result
from gradhook.autograd.views import edge_of
from gradhook.modes import get_modes
from gradhook.ops.table import TABLE
from gradhook.overloads import gathering
from gradhook.overloads.arithmetic import clamping, refuse_negative, scaled
from gradhook.overloads.recorded import ops, write
from gradhook.tensor import Tensor


def add_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self += alpha * other.

    Errors: RuntimeError when the result's shape or dtype does not fit self.
    """
    return write(TABLE["add"], self, scaled(self, other, alpha))


def sub_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self -= alpha * other.

    Errors: RuntimeError when the result's shape or dtype does not fit self.
    """
    return write(TABLE["subtract"], self, scaled(self, other, alpha))


def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """self /= other, rounded as div. Errors: RuntimeError when the result does not fit self."""
    names = {None: "divide", "trunc": "trunc_divide", "floor": "floor_divide"}
    if rounding_mode not in names:
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    return write(TABLE[names[rounding_mode]], self, other)


def abs_(self: Tensor) -> Tensor:
    """self becomes |self|. Errors: RuntimeError for complex tensors."""
    if self.is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return write(TABLE["absolute"], self)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """self raised to min and lowered to max. Errors: RuntimeError when both are None."""
    row, limits, numbers = clamping(self, min, max)
    return write(TABLE[row], self, *limits, **numbers)


def pow_(self: Tensor, exponent: Any) -> Tensor:
    """self becomes self to the power exponent. Errors: RuntimeError when that does not fit self."""
    if type(exponent) in (int, float) and self._a.dtype.kind in "fc":
        return write(TABLE["pow"], self, exponent=exponent)
    refuse_negative(self, exponent)
    return write(TABLE["power"], self, exponent)


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """self becomes src, broadcast and cast; src may be on another device.

    Errors: RuntimeError when src does not broadcast to self.
    """
    if isinstance(src, Tensor) and src.device != self.device:
        src = src.to(self.device)
    return write(TABLE["copy"], self, src)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Every element becomes value: a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
                "dimensions."
            )
        return write(TABLE["copy"], self, value)
    return write(TABLE["fill"], self, value=value)


def zero_(self: Tensor) -> Tensor:
    """Every element becomes 0."""
    return write(TABLE["fill"], self, value=0)


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Elements where mask holds become value: a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        return write(TABLE["masked_fill_tensor"], self, mask, value)
    return write(TABLE["masked_fill"], self, mask, value=value)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """self[indices] = values, or += with accumulate. indices: a tuple of index tensors."""
    index = indexing.advanced(self, tuple(indices))
    return write(TABLE["index_put"], self, values, index=index, accumulate=accumulate)


def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """src (a tensor or a number) written into self at index along dim.

    reduce: "add" or "multiply".
    """
    src = value if src is None else src
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        if not isinstance(src, Tensor):
            src = ops.fill(ops.cast(index, dtype=self.dtype), value=src)
        return scatter_reduce_(self, dim, index, src, "sum" if reduce == "add" else "prod")
    if isinstance(src, Tensor):
        return write(TABLE["scatter"], self, index, src, axis=dim)
    return write(TABLE["scatter_value"], self, index, axis=dim, value=src)


def scatter_reduce_(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """src reduced into self at index along dim: "sum", "prod", "mean", "amax" or "amin"."""
    return write(
        TABLE["scatter_reduce"],
        self,
        index,
        src,
        axis=dim,
        reduce=reduce,
        include_self=include_self,
    )


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """The slices of self at index along dim become value."""
    if isinstance(value, Tensor):
        mask = gathering.filled_mask(self, dim, index, value)
        return write(TABLE["masked_fill_tensor"], self, mask, value)
    return write(TABLE["index_fill"], self, index, axis=dim, value=value)


def _out_of_place(name: str) -> Callable[..., Tensor]:
    """`<name>_` from the public function: its result is copied into self.

    Errors: RuntimeError when the result's shape or dtype does not fit self.
    """

    def changed(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # a copy, since the history may save what is overwritten below
        result = getattr(ops.clone(self), name)(*args, **kwargs)
        if name == "float_power" and result.dtype != self.dtype:
            raise RuntimeError(
                f"the base given to float_power_ has dtype {self.dtype.title} but the operation's "
                f"result requires dtype {result.dtype.title}; use the out-of-place float_power"
            )
        check_result(name, self, result)
        return write(TABLE["copy"], self, result)

    changed.__name__ = changed.__qualname__ = f"{name}_"
    changed.__doc__ = f"{name} written into self."
    return changed


def _turned(name: str) -> Callable[..., Tensor]:
    """`<name>_`: self becomes its own view by the function, on the same object."""

    def changed(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if get_modes().grad and self.is_leaf and self.requires_grad:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation. "
                f"({name}_; write under "
                "no_grad(), or on a clone())"
            )
        result = getattr(self, name)(*args, **kwargs)
        node = edge_of(result)
        self._a, self._nr = result._a, result._nr
        self._node = node
        if self._view is not None:
            self._view = result._view
        return self

    changed.__name__ = changed.__qualname__ = f"{name}_"
    changed.__doc__ = f"{name} of self, on the same object."
    return changed


_TURNED = ("squeeze", "unsqueeze", "transpose", "swapaxes", "swapdims", "t", "as_strided")

INPLACE: dict[str, Callable[..., Any]] = {
    "abs_": abs_,
    "pow_": pow_,
    "clamp_": clamp_,
    "clip_": clamp_,
    "absolute_": abs_,
    "add_": add_,
    "sub_": sub_,
    "subtract_": sub_,
    "div_": div_,
    "divide_": div_,
    "true_divide_": div_,
    "copy_": copy_,
    "fill_": fill_,
    "zero_": zero_,
    "masked_fill_": masked_fill_,
    "index_put_": index_put_,
    "scatter_": scatter_,
    "scatter_reduce_": scatter_reduce_,
    "index_fill_": index_fill_,
    **{f"{n}_": _turned(n) for n in _TURNED},
    **{
        f"{n}_": _out_of_place(n)
        for n in (
            "conj_physical",
            "float_power",
            "ldexp",
            "masked_scatter",
            "polygamma",
            "mvlgamma",
            "put",
        )
    },
}
