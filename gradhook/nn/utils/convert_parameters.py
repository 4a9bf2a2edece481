"""Parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from gradhook.autograd.binding import make
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters flattened into one vector, with their history."""
    return xp.concat(*(xp.reshape(p, shape=(-1,)) for p in parameters), axis=0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give every parameter its slice of the vector as data.

    Errors: TypeError unless vec is a Tensor.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in parameters:
        n = p.numel()
        piece = vec._a[start : start + n].reshape(p._a.shape)
        p.data = make(piece)
        start += n
