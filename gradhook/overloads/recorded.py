"""The table's functions over Tensors, typed: `ops.f(...)` is one Tensor, `multi.f(...)` several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import gradhook.ops.families  # noqa: F401 - fills the table
from gradhook.autograd import binding, inplace, record
from gradhook.tensor import Tensor


class OneTensor(Protocol):
    def __getattr__(self, name: str) -> Callable[..., Tensor]: ...


class SeveralTensors(Protocol):
    def __getattr__(self, name: str) -> Callable[..., tuple[Tensor, ...]]: ...


ops: OneTensor = record.ops
multi: SeveralTensors = record.ops
write: Callable[..., Tensor] = inplace.inplace
tensor_of: Callable[..., Tensor] = binding.make
