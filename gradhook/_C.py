"""PyTorch's private questions about a backward run, under the names that libraries ask for."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

from gradhook.autograd.introspection import (
    current_autograd_node as _current_autograd_node,
)
from gradhook.autograd.introspection import (
    current_graph_task_execution_order as _current_graph_task_execution_order,
)
from gradhook.autograd.introspection import (
    current_graph_task_id as _current_graph_task_id,
)
from gradhook.autograd.introspection import (
    current_graph_task_keep_graph,
)
from gradhook.autograd.introspection import (
    will_engine_execute_node as _will_engine_execute_node,
)
from gradhook.autograd.saved_hooks import saved_tensors_hooks_enabled
from gradhook.autograd.saved_tensor import SavedTensor
from gradhook.tensor import Tensor

__all__ = [
    "_WeakTensorRef",
    "_autograd",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_will_engine_execute_node",
]


class _WeakTensorRef:
    """A weak reference to a Tensor object: `expired()` once it is gone."""

    def __init__(self, tensor: Tensor) -> None:
        self._of = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._of() is None


_autograd = SimpleNamespace(
    SavedTensor=SavedTensor,
    _get_current_graph_task_keep_graph=current_graph_task_keep_graph,
    _saved_tensors_hooks_is_enabled=saved_tensors_hooks_enabled,
)
