"""Dimension arguments as PyTorch reads them: negative ones, tuples, the empty tuple, dimension 0 of
a 0-d array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Shape = tuple[int, ...]
Axis = int | Sequence[int] | None


def accumulate_at(xp: Any, target: Any, index: Any, values: Any) -> None:
    """Add values at target[index] in place; repeated positions sum.

    CuPy's add.at takes no complex numbers, which are added by their parts, views of them, and no
    bools or whole numbers of one or two bytes, which are added as wider ones.
    """
    kind = target.dtype.kind
    whole = kind in "iu" and target.itemsize > 2
    if xp.__name__ == "numpy" or kind == "f" or whole:
        xp.add.at(target, index, values)
    elif kind == "c":
        xp.add.at(target.real, index, values.real)
        xp.add.at(target.imag, index, values.imag)
    else:
        wide = target.astype("i4")
        xp.add.at(wide, index, values.astype("i4"))
        target[...] = wide.astype(target.dtype)


def wrap(axis: int, ndim: int) -> int:
    """The non-negative form of a dimension; a 0-d array takes 0 and -1.

    Errors: IndexError with PyTorch's text.
    """
    limit = ndim or 1
    if not -limit <= axis < limit:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got "
            f"{axis})"
        )
    return axis % limit


def wrap_all(axis: Axis, ndim: int) -> Shape:
    """The dimensions a reduction goes over, non-negative and in order; None and () mean all.

    Errors: IndexError when one is out of range, RuntimeError when one appears twice.
    """
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, Sequence):
        if len(axis) == 0:
            return tuple(range(ndim))
        found = tuple(wrap(int(a), ndim) for a in axis)
        for a in found:
            if found.count(a) > 1:
                raise RuntimeError(f"dim {a} appears multiple times in the list of dims")
    else:
        found = (wrap(int(axis), ndim),)
    return found if ndim else ()


def plain(axis: Axis, ndim: int) -> int | Shape | None:
    """The `axis` argument that NumPy's reductions take for this one, made fast for None and an int.

    Errors: as wrap_all.
    """
    if axis is None or (type(axis) is int and -ndim <= axis < ndim):
        return axis
    return wrap_all(axis, ndim)


def reduced(shape: Sequence[int], axis: Axis) -> Shape:
    """`shape` with the dimensions that a reduction goes over replaced by 1."""
    axes = wrap_all(axis, len(shape))
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def count(shape: Sequence[int], axis: Axis) -> int:
    """How many elements a reduction over `axis` puts into each result."""
    return prod(shape[k] for k in wrap_all(axis, len(shape)))


def inverse(dims: Sequence[int]) -> Shape:
    """The permutation that undoes `dims` (negative ones allowed)."""
    result = [0] * len(dims)
    for k, d in enumerate(dims):
        result[d % len(dims)] = k
    return tuple(result)


def broadcast(*shapes: Sequence[int]) -> Shape:
    """The shape that arrays of these shapes broadcast to.

    Errors: RuntimeError with PyTorch's text.
    """
    ndim = max((len(s) for s in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for k, n in enumerate(shape, start=ndim - len(shape)):
            if n != 1 and result[k] not in (1, n):
                raise RuntimeError(
                    f"The size of tensor a ({result[k]}) must match the size of tensor b ({n}) "
                    f"at non-singleton dimension {k}"
                )
            if n != 1:
                result[k] = n
    return tuple(result)
