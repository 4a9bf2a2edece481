"""`Variable`, PyTorch's Tensor of before 0.4, which libraries still name. Source:
torch.autograd.Variable.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradhook.autograd.binding import Binding
from gradhook.autograd.engine import queue_callback


class VariableMeta(type):
    """A Tensor is an instance of Variable."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Binding.tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(data, requires_grad=False)`: a leaf Tensor on the memory of data, a Tensor.

    `Variable._execution_engine.queue_callback` is `autograd.queue_callback`.

    Errors: TypeError for data that is no Tensor.
    """

    _execution_engine = SimpleNamespace(queue_callback=queue_callback)

    def __new__(cls, data: Any, requires_grad: bool = False) -> Any:
        if not isinstance(data, Binding.tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {type(data).__name__}; make one with "
                "gradhook.as_tensor"
            )
        return data.detach().requires_grad_(requires_grad)
