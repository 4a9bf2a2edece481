"""Shapes with several forms: view, expand_as, narrow, unfold, T, mT, atleast_1d, repeat_interleave,
rot90, ...
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.autograd.binding import make
from gradhook.ops.axes import broadcast, wrap
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = (
    "narrow",
    "select",
    "repeat_interleave",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_tensors",
    "broadcast_shapes",
    "flip",
    "permute",
    "reshape",
    "tile",
    "rot90",
    "fliplr",
    "flipud",
    "meshgrid",
    "adjoint",
    "resolve_conj",
    "resolve_neg",
    "diagflat",
)
METHODS = (
    "flip",
    "permute",
    "reshape",
    "tile",
    "expand",
    "repeat",
    "narrow",
    "select",
    "repeat_interleave",
    "view",
    "view_as",
    "reshape_as",
    "expand_as",
    "unfold",
    "rot90",
    "fliplr",
    "flipud",
    "adjoint",
    "resolve_conj",
    "resolve_neg",
    "contiguous",
    "diagflat",
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
    return tuple(int(n) for n in values)


def flip(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """The dimensions `dims` in reverse, a copy.

    Errors: IndexError, RuntimeError for a repeated one.
    """
    return ops.flip(input, dims=_given("dims", dims, named))


def permute(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Dimensions in the order `dims`, a view.

    Errors: RuntimeError for another number or repeated ones.
    """
    return ops.permute_dims(input, dims=_given("dims", dims, named))


def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """Another shape of as many elements (one -1 is inferred), a view where strides allow.

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
    """Copies side by side, dims[k] along each dimension, missing ones 1."""
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
            return make(self._a.view(shape.np))
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

    Errors: RuntimeError or IndexError out of range.
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = wrap(dim, input.ndim)
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
    """One slice along dim, a view without that dimension. Errors: IndexError out of range."""
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

    A copy (torch gives a view).
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
    number a slice.

    Errors: RuntimeError when the number of repeats does not fit.
    """
    if repeats is None:
        xp = backend.array_module(input._a)
        return make(xp.asarray(np.repeat(np.arange(input.numel()), backend.to_host(input._a))))
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
    return ops.index_select(x, make(positions), axis=axis)


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least 1 dimension."""
    return _each(tensors, lambda x: x if x.ndim else ops.reshape(x, shape=(1,)))


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least 2 dimensions, new ones first."""
    return _each(tensors, lambda x: x if x.ndim > 1 else ops.reshape(x, shape=(1, x.numel())))


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least 3 dimensions; a vector goes to the middle one."""

    def lift(x: Tensor) -> Tensor:
        if x.ndim > 2:
            return x
        return ops.reshape(x, shape=(1, x.numel(), 1) if x.ndim < 2 else (*x.shape, 1))

    return _each(tensors, lift)


def _each(tensors: tuple[Any, ...], function: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    found = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(t) for t in found)


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that these shapes broadcast to. Errors: RuntimeError when they do not."""
    from gradhook.size import Size

    return Size(broadcast(*[(s,) if isinstance(s, int) else tuple(s) for s in shapes]))


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Each tensor as a view of the shape they broadcast to."""
    found = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    shape = broadcast(*[tuple(t.shape) for t in found])
    return tuple(ops.expand(t, size=shape) for t in found)


def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The plane of two dimensions turned by k quarter turns.

    Errors: RuntimeError for other dims.
    """
    if len(dims) != 2 or input.ndim < 2 or wrap(dims[0], input.ndim) == wrap(dims[1], input.ndim):
        raise RuntimeError(
            f"expected total rotation dims == 2 and different ones, but got dims = {list(dims)}"
        )
    a, b = (wrap(d, input.ndim) for d in dims)
    if k % 4 == 2:
        return ops.flip(input, dims=(a, b))
    if k % 4 == 1:
        return ops.clone(ops.transpose(ops.flip(input, dims=(b,)), dim0=a, dim1=b))
    if k % 4 == 3:
        return ops.flip(ops.transpose(input, dim0=a, dim1=b), dims=(b,))
    return ops.clone(input)


def fliplr(input: Tensor) -> Tensor:
    """The second dimension in reverse. Errors: RuntimeError below 2 dimensions."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return ops.flip(input, dims=(1,))


def flipud(input: Tensor) -> Tensor:
    """The first dimension in reverse. Errors: RuntimeError for 0 dimensions."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return ops.flip(input, dims=(0,))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinate grids of vectors, views.

    indexing: "ij" or "xy". Errors: RuntimeError for other inputs.
    """
    found = (
        list(tensors[0])
        if len(tensors) == 1 and not isinstance(tensors[0], Tensor)
        else list(tensors)
    )
    if any(t.ndim > 1 for t in found):
        raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    swap = indexing == "xy" and len(found) > 1
    if swap:
        found[0], found[1] = found[1], found[0]
    shape = tuple(t.numel() for t in found)
    grids = [
        ops.broadcast_to(
            ops.reshape(t, shape=(1,) * k + (t.numel(),) + (1,) * (len(found) - 1 - k)), shape=shape
        )
        for k, t in enumerate(found)
    ]
    if swap:
        grids = [ops.transpose(g, dim0=0, dim1=1) for g in grids]
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of input on a diagonal."""
    return ops.diag_embed(ops.reshape(input, shape=(-1,)), offset=offset)


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are never lazy here."""
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
    """The conjugate transpose of matrices."""
    turned = ops.matrix_transpose(self)
    return ops.conj(turned) if self.is_complex() else turned


adjoint = mH


def real(self: Tensor) -> Tensor:
    """The real part, a view; a real tensor itself."""
    return ops.real(self) if self.is_complex() else self


def imag(self: Tensor) -> Tensor:
    """The imaginary part, a view. Errors: RuntimeError for a real tensor."""
    return ops.imag(self)
