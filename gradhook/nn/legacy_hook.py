"""The legacy module backward hook (`register_backward_hook`): a post-hook on the node of the first
output tensor.

Source: torch.nn.Module.register_backward_hook; kept for old code, register_full_backward_hook is
the right one.
"""

from __future__ import annotations

import weakref
from typing import Any

from gradhook.autograd.views import edge_of
from gradhook.nn import tree
from gradhook.tensor import Tensor


class WrappedHook:
    """`hook(module, grad_input, grad_output)` as a node hook; the module is held weakly.

    Errors: RuntimeError when the module died.
    """

    def __init__(self, hook: Any, module: Any) -> None:
        self.hook = hook
        self.module = weakref.ref(module)
        self.__name__ = getattr(hook, "__name__", "<unknown>")

    def __call__(self, grad_input: Any, grad_output: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        result = self.hook(module, grad_input, grad_output)
        return (result,) if isinstance(result, Tensor) else result


def attach(module: Any, hooks: tuple[Any, ...], output: Any) -> None:
    """Hang the hooks on the node of the first tensor of the output, where there is one."""
    first = next((leaf for leaf in tree.flatten(output)[0] if isinstance(leaf, Tensor)), None)
    node = None if first is None else edge_of(first)
    if node is not None and not node.leaf:
        for hook in hooks:
            node.register_hook(WrappedHook(hook, module))
