"""Shapes with several forms: view, expand, narrow, select, unfold, repeat_interleave, T, mT, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.ops.axes import wrap
from gradhook.overloads.recorded import ops, tensor_of
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = tuple(
    """
    narrow select repeat_interleave flip permute reshape tile adjoint resolve_conj
    resolve_neg diagflat
""".split()
)
METHODS = tuple(
    """
    flip permute reshape tile expand repeat narrow select repeat_interleave view view_as
    reshape_as expand_as unfold adjoint resolve_conj resolve_neg contiguous diagflat
""".split()
)
PROPERTIES = ("T", "mT", "H", "mH", "real", "imag")


def _given(name: str, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The numbers of f(x, 2, 3), f(x, (2, 3)) and f(x, name=(2, 3))."""
    if named:
        found = named.pop(name, None)
        if found is None or named or values:
            raise TypeError(
                f"expected the argument {name!r} once, found {values} and {sorted(named)}"
            )
        values = (found,)
    if len(values) == 1 and not isinstance(values[0], int | np.integer | Tensor):
        (values,) = values
    for n in values:
        if type(n) is not int:
            return tuple([int(m) for m in values])
    return values if type(values) is tuple else tuple(values)


def flip(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """The dimensions `dims` in reverse, a copy.

    Dtype of input.

    Errors: IndexError, RuntimeError for a repeated one.
    """
    return ops.flip(input, dims=_given("dims", dims, named))


def permute(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Dimensions in the order `dims`, a view.

    Dtype of input.

    Errors: RuntimeError for another number or repeated ones.
    """
    return ops.permute_dims(input, dims=_given("dims", dims, named))


def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """Another shape of as many elements (one -1 is inferred), a view where strides allow.

    Dtype of input.

    Errors: RuntimeError.
    """
    return ops.reshape(input, shape=_given("shape", shape, named))


def expand(self: Tensor, *size: Any, **named: Any) -> Tensor:
    """Dimensions of 1 repeated to `size` (-1 keeps one), a view.

    Errors: RuntimeError where they do not fit.
    """
    named.pop("implicit", None)
    return ops.expand(self, size=_given("size", size, named))


def repeat(self: Tensor, *repeats: Any, **named: Any) -> Tensor:
    """Copies side by side, repeats[k] along each dimension, new ones first.

    Errors: RuntimeError for too few.
    """
    return ops.repeat(self, repeats=_given("repeats", repeats, named))


def tile(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Copies side by side, dims[k] along each dimension, missing ones 1. Dtype of input."""
    return ops.tile(input, dims=_given("dims", dims, named))


def view(self: Tensor, *shape: Any) -> Tensor:
    """The same memory in another shape (or, for one dtype, seen as that dtype).

    Errors: RuntimeError where strides do not allow it.
    """
    if len(shape) == 1 and not isinstance(shape[0], int | np.integer):
        (shape,) = shape
        if isinstance(shape, dtypes.dtype):
            if shape == self.dtype:
                return ops.view(self, shape=tuple(self.shape))
            return tensor_of(self._a.view(shape.np))
    return ops.view(self, shape=tuple(shape))


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """view in the shape of other."""
    return ops.view(self, shape=tuple(other.shape))


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """reshape in the shape of other."""
    return ops.reshape(self, shape=tuple(other.shape))


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """expand to the shape of other."""
    return ops.expand(self, size=tuple(other.shape))


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself where its elements lie in row-major order, else a copy in that order."""
    return self if self._a.flags.c_contiguous else ops.contiguous_copy(self)


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` slices from `start` on along dim, a view.

    Dtype of input.

    Errors: RuntimeError or IndexError out of range.
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = wrap(dim, input.ndim)
    if isinstance(start, Tensor) and (start.ndim or start._a.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    size, begin = input.shape[axis], int(start)
    if not -size <= begin <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {begin})"
        )
    begin = begin + size if begin < 0 else begin
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if begin + length > size:
        raise RuntimeError(f"start ({begin}) + length ({length}) exceeds dimension size ({size}).")
    return ops.slice_view(input, index=(*(slice(None),) * axis, slice(begin, begin + length)))


def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """One slice along dim, a view without that dimension. Errors: IndexError out of range.

    Dtype of input.
    """
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis = wrap(dim, input.ndim)
    size, at = input.shape[axis], int(index)
    if not -size <= at < size:
        raise IndexError(
            f"select(): index {at} out of range for tensor of size {list(input.shape)} at "
            f"dimension {axis}"
        )
    return ops.slice_view(input, index=(*(slice(None),) * axis, at % size, Ellipsis))


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` every `step` along a dimension, in a new last one.

    A view.
    """
    axis = wrap(dimension, self.ndim)
    if size > (self.shape[axis] if self.ndim else 1):
        raise RuntimeError(
            f"maximum size for tensor at dimension {axis} is "
            f"{self.shape[axis] if self.ndim else 1} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return ops.windows(self, size=size, step=step, axis=axis)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: Any = None
) -> Tensor:
    """Each slice along dim (of the flattened input without) repeated: a number of times, or one
    number a slice. Dtype of input.

    Errors: RuntimeError when the number of repeats does not fit.
    """
    if repeats is None:
        xp = backend.array_module(input._a)
        return tensor_of(xp.asarray(np.repeat(np.arange(input.numel()), backend.to_host(input._a))))
    x = ops.reshape(input, shape=(-1,)) if dim is None or input.ndim == 0 else input
    axis = wrap(0 if dim is None else dim, input.ndim if dim is not None else 1)
    n = x.shape[axis]
    counts = backend.to_host(repeats._a) if isinstance(repeats, Tensor) else np.asarray(repeats)
    if counts.dtype.kind not in "iu":
        raise RuntimeError("repeats has to be Long or Int tensor")
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    if counts.ndim and counts.size not in (1, n):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.size} and input.size({axis}) = {n}"
        )
    index = np.repeat(np.arange(n), counts.reshape(-1) if counts.ndim else int(counts))
    positions = backend.array_module(x._a).asarray(index)
    return ops.index_select(x, tensor_of(positions), axis=axis)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of input on a diagonal. Dtype of input."""
    return ops.diag_embed(ops.reshape(input, shape=(-1,)), offset=offset)


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are never lazy here. Shape and dtype stay."""
    return input


resolve_neg = resolve_conj


def T(self: Tensor) -> Tensor:
    """All dimensions in reverse, a view."""
    return ops.permute_dims(self, dims=tuple(range(self.ndim))[::-1])


def mT(self: Tensor) -> Tensor:
    """The last two dimensions exchanged, a view."""
    return ops.matrix_transpose(self)


def H(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor."
        )
    turned = ops.t(self)
    return ops.conj(turned) if self.is_complex() else turned


def mH(self: Tensor) -> Tensor:
    """The conjugate transpose of matrices. A: (..., m, n), any dtype. Result: (..., n, m)."""
    turned = ops.matrix_transpose(self)
    return ops.conj(turned) if self.is_complex() else turned


adjoint = mH


def real(self: Tensor) -> Tensor:
    """The real part, a view; a real tensor itself."""
    return ops.real(self) if self.is_complex() else self


def imag(self: Tensor) -> Tensor:
    """The imaginary part, a view. Errors: RuntimeError for a real tensor."""
    return ops.imag(self)
