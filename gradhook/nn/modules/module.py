"""PyTorch's import path of Module and of the global module hooks.

The `_global_*` names are this module's attributes, and rebinding one (as PyTorch's tests do)
rebinds the table in gradhook.hooks.everywhere, which a module call reads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradhook.hooks import everywhere
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.registry import HookTable
from gradhook.nn.module import Module
from gradhook.nn.module_hooks import flagged
from gradhook.nn.module_state import IncompatibleKeys as _IncompatibleKeys

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]
_ = _IncompatibleKeys

MIXED = (
    "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
    "Please use only one of them."
)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` before forward of every module, before its own hooks.

    As Module.register_forward_pre_hook.
    """
    return everywhere.forward_pre.add(hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` after forward of every module.

    As Module.register_forward_hook.
    """
    flags = [n for n, on in (("with_kwargs", with_kwargs), ("always_call", always_call)) if on]
    return everywhere.forward.add(hook, flags=flags)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` for every module. As Module.register_full_backward_pre_hook."""
    return everywhere.full_backward_pre.add(hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` for every module.

    As Module.register_full_backward_hook.

    Errors: RuntimeError beside global legacy hooks.
    """
    if everywhere.legacy_backward:
        raise RuntimeError(MIXED)
    return everywhere.full_backward.add(hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The legacy form for every module. Errors: RuntimeError beside global full backward hooks."""
    if everywhere.full_backward:
        raise RuntimeError(MIXED)
    return everywhere.legacy_backward.add(hook)


def _table(value: Any) -> HookTable:
    return value if isinstance(value, HookTable) else HookTable(value)


def _global(name: str) -> property:
    """A `_global_*` attribute that is a table of `everywhere`."""

    def get(self: Any) -> HookTable:
        found: HookTable = getattr(everywhere, name)
        return found

    def put(self: Any, value: Any) -> None:
        setattr(everywhere, name, _table(value))

    return property(get, put)


class _GlobalTables(ModuleType):
    """The class of this Python module: reads and writes of `_global_*` go to `everywhere`."""

    _global_forward_pre_hooks = _global("forward_pre")
    _global_forward_hooks = _global("forward")
    _global_backward_pre_hooks = _global("full_backward_pre")

    @property
    def _global_backward_hooks(self) -> HookTable:
        return everywhere.legacy_backward or everywhere.full_backward

    @_global_backward_hooks.setter
    def _global_backward_hooks(self, value: Any) -> None:
        legacy = bool(everywhere.legacy_backward)
        everywhere.legacy_backward = _table(value if legacy else {})
        everywhere.full_backward = _table({} if legacy else value)

    @property
    def _global_is_full_backward_hook(self) -> bool | None:
        return True if everywhere.full_backward else False if everywhere.legacy_backward else None

    @_global_is_full_backward_hook.setter
    def _global_is_full_backward_hook(self, value: bool | None) -> None:
        """PyTorch's flag; here it follows from the tables."""

    @property
    def _global_forward_hooks_with_kwargs(self) -> Any:
        return flagged(everywhere.forward, "with_kwargs")

    @property
    def _global_forward_hooks_always_called(self) -> Any:
        return flagged(everywhere.forward, "always_call")


sys.modules[__name__].__class__ = _GlobalTables
