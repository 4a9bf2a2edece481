"""einsum, tensordot, cross and other products."""

from __future__ import annotations

from typing import Any

from gradhook.ops.axes import broadcast, wrap
from gradhook.overloads.linalg_checks import with_norm
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = ("einsum", "tensordot", "inner", "kron", "cross", "cdist", "dist")
METHODS = ("inner", "kron", "cross", "dist")
PROPERTIES: tuple[str, ...] = ()


def einsum(*args: Any) -> Tensor:
    """Sum of products by labelled dimensions: einsum("ij,jk->ik", a, b), a list of operands, or
    operands each followed by a list of numbers (and at the end the result's). The promoted dtype.

    Errors: RuntimeError when the equation does not fit the operands, TypeError or ValueError for
    other calls.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its "
            "subscripts list"
        )
    if isinstance(args[0], Tensor):
        return _from_lists(args)
    equation, operands = args[0], args[1:]
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    return ops.einsum(*operands, equation=equation)


def _from_lists(args: tuple[Any, ...]) -> Tensor:
    def letters(numbers: Any) -> str:
        return "".join(
            "..." if n is Ellipsis else chr(ord("A") + n) if n < 26 else chr(ord("a") + n - 26)
            for n in numbers
        )

    operands, lists = args[0 : len(args) - len(args) % 2 : 2], args[1::2]
    equation = ",".join(letters(numbers) for numbers in lists)
    if len(args) % 2:
        equation += "->" + letters(args[-1])
    return ops.einsum(*operands, equation=equation)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over the last `dims` dimensions of a and the first of b, or over the pairs
    given. The promoted dtype.
    Errors: RuntimeError for dimensions that are not there or do not pair.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    return ops.tensordot(a, b, axes=(first, second))


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sum of products over the last dimension of both. Result: the other dimensions.

    The promoted dtype. Errors: RuntimeError where the last dimensions differ.
    """
    if input.ndim == 0 or other.ndim == 0:
        return ops.multiply(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and "
            f"{list(other.shape)}"
        )
    return ops.tensordot(input, other, axes=([-1], [-1]))


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product. Result: the products of the dimensions, of the larger number of them.

    The promoted dtype.
    """
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + tuple(input.shape)
    b = (1,) * (n - other.ndim) + tuple(other.shape)
    x = ops.reshape(input, shape=tuple(k for size in a for k in (size, 1)))
    y = ops.reshape(other, shape=tuple(k for size in b for k in (1, size)))
    return ops.reshape(ops.multiply(x, y), shape=tuple(p * q for p, q in zip(a, b, strict=True)))


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Vector product along a dimension of 3 (the first such without dim).

    Shapes broadcast. Errors: RuntimeError. The promoted dtype.
    """
    shape = broadcast(tuple(input.shape), tuple(other.shape))
    if dim is None:
        dim = next((k for k, n in enumerate(shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    axis = wrap(dim, len(shape))
    if input.ndim != other.ndim or input.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and "
            f"{other.shape[axis]}"
        )

    def turned(x: Tensor, by: int) -> Tensor:
        return ops.roll(x, shifts=by, dims=axis)

    a, b = ops.expand(input, size=shape), ops.expand(other, size=shape)
    return ops.subtract(
        ops.multiply(turned(a, -1), turned(b, -2)), ops.multiply(turned(a, -2), turned(b, -1))
    )


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    """The p-norm between every two rows. x1: (..., n, d), x2: (..., m, d). Result: (..., n, m).

    Floating. Errors: RuntimeError for other dtypes and numbers of columns.
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if x._a.dtype.kind in "biuc":
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {x.dtype.title}; convert "
                "with .to(dtype)"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    difference = ops.subtract(ops.expand_dims(x1, axis=-2), ops.expand_dims(x2, axis=-3))
    return ops.vector_norm(difference, ord=float(p), axis=-1)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other. Shapes broadcast. Result: 0-d. Floating or complex.

    Errors: RuntimeError for other dtypes.
    """
    difference = ops.subtract(input, other)
    with_norm(difference)
    return ops.vector_norm(difference, ord=float(p))
