"""Gradients as Tensors, recorded: the carrier of create_graph=True."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from gradhook.autograd.api import Recording
from gradhook.autograd.binding import make, make_at
from gradhook.autograd.carriers import ARRAYS, lent
from gradhook.autograd.graph import Node, TensorMeta, conform
from gradhook.autograd.record import ops


class TensorCarrier:
    """Gradients are Tensors; every formula is itself recorded."""

    recording = True

    @staticmethod
    def apply(node: Node, g: Any) -> tuple[Any, ...]:
        return node.backward_recorded(g)

    @staticmethod
    def array(g: Any) -> Any:
        return g._a

    @staticmethod
    def conform(g: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        if g._a.shape == shape and g._a.dtype == dtype:
            return g
        return conform(ops, g, shape, dtype)

    @staticmethod
    def add(pending: list[Any], hooks: Any = ()) -> Any:
        return reduce(ops.add, pending)  # recorded, declared hooks run as others do

    @staticmethod
    def zeros(meta: TensorMeta) -> Any:
        return make(ARRAYS.zeros(meta))

    @staticmethod
    def copy(g: Any) -> Any:
        return g

    @staticmethod
    def lend(g: Any) -> Any:
        return lent(g._a, g._node, g._nr)

    @staticmethod
    def take(result: Any) -> Any:
        return make_at(result._a, result._node, result._nr)

    @staticmethod
    def wrap(g: Any) -> Any:
        return g

    @staticmethod
    def adopt(g: Any) -> Any:
        return ops.clone(g)

    @staticmethod
    def accumulate(have: Any, g: Any, owned: bool) -> Any:
        if have is None:
            return g if owned else ops.clone(g)
        return ops.add(have, g)


TENSORS = TensorCarrier()
Recording.carrier = TENSORS
