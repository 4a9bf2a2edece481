"""The table's functions over Tensors, for type checkers: each returns a Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gradhook.autograd import record
from gradhook.tensor import Tensor


class TensorOps(Protocol):
    """`xp` over Tensors: the recorder of each table op under its name."""

    def __getattr__(self, name: str, /) -> Callable[..., Tensor]: ...


ops: TensorOps = record.ops
