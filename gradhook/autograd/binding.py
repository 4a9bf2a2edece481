"""The Tensor class as handed in by tensor.py, and how the layers below it make Tensors."""

from __future__ import annotations

from typing import Any

from gradhook.autograd.compiled import blank, check
from gradhook.storage import INFERENCE


class Binding:
    """tensor: the Tensor class, set once by `bind`."""

    tensor: Any = None


def bind(tensor: type) -> None:
    """Hand the Tensor class to the recorders, before the first op."""
    check()
    Binding.tensor = tensor


def make(array: Any) -> Any:
    """A Tensor over an array (of exactly a known array class), without history."""
    t = blank(Binding.tensor)
    t._a = array
    t._v = None
    t._node = None
    t._nr = 0
    t._view = None
    t._slot = None
    return t


def make_at(array: Any, node: Any, nr: int) -> Any:
    """A Tensor over an array whose gradient goes to output `nr` of `node` (None: nowhere)."""
    t = blank(Binding.tensor)
    t._a = array
    t._v = None
    t._node = node
    t._nr = nr
    t._view = None
    t._slot = None
    return t


def cell_of(t: Any) -> Any:
    """The tensor's version cell, made on demand."""
    if t._v is None:
        t._v = [0, None]
    return t._v


def mark_inference(tensors: tuple[Any, ...]) -> None:
    """These were made in inference mode: views of normal tensors stay normal, others get no
    version.
    """
    for t in tensors:
        if t._v is None:
            t._v = INFERENCE
