"""PyTorch's import path of Module and of the global module hooks.

The `_global_*` names are this module's attributes, and rebinding one (as PyTorch's tests do)
rebinds the table in gradhook.hooks.everywhere, which a module call reads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradhook.hooks.everywhere import everywhere, global_table
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.owner import table_of
from gradhook.hooks.registry import HookTable
from gradhook.nn.module import Module
from gradhook.nn.module_hooks import flagged, full_flags
from gradhook.nn.module_load import IncompatibleKeys as _IncompatibleKeys

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
_ = _IncompatibleKeys

MIXED = (
    "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
    "Please use only one of them."
)


def register_module_forward_pre_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False
) -> RemovableHandle:
    """`hook(module, args)` before forward of every module, before its own hooks.

    As Module.register_forward_pre_hook.
    """
    return everywhere.forward_pre.add(hook, flags=("with_kwargs",) if with_kwargs else ())


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


def register_module_full_backward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, when: str = "auto"
) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` for every module.

    As Module.register_full_backward_hook.

    Errors: RuntimeError beside global legacy hooks.
    """
    if everywhere.legacy_backward:
        raise RuntimeError(MIXED)
    return everywhere.full_backward.add(hook, flags=full_flags(with_kwargs, when))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The legacy form for every module. Errors: RuntimeError beside global full backward hooks."""
    if everywhere.full_backward:
        raise RuntimeError(MIXED)
    return everywhere.legacy_backward.add(hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` before every buffer is registered, by register_buffer or by
    assignment (None too); a Tensor that it returns takes the buffer's place.
    """
    return everywhere.buffer_registration.add(hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` before every child is registered, by add_module or by
    assignment (None too); a Module that it returns takes the child's place.
    """
    return everywhere.module_registration.add(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, param)` before every parameter is registered, by register_parameter or by
    assignment (not for None); a Parameter that it returns takes its place.
    """
    return everywhere.parameter_registration.add(hook)


class _GlobalTables(ModuleType):
    """The class of this Python module: reads and writes of `_global_*` go to `everywhere`."""

    _global_forward_pre_hooks = global_table(everywhere, "forward_pre")
    _global_forward_hooks = global_table(everywhere, "forward")
    _global_backward_pre_hooks = global_table(everywhere, "full_backward_pre")
    _global_buffer_registration_hooks = global_table(everywhere, "buffer_registration")
    _global_module_registration_hooks = global_table(everywhere, "module_registration")
    _global_parameter_registration_hooks = global_table(everywhere, "parameter_registration")

    @property
    def _global_backward_hooks(self) -> HookTable:
        return everywhere.legacy_backward or everywhere.full_backward

    @_global_backward_hooks.setter
    def _global_backward_hooks(self, value: Any) -> None:
        legacy = bool(everywhere.legacy_backward)
        everywhere.legacy_backward = table_of(value if legacy else {})
        everywhere.full_backward = table_of({} if legacy else value)

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
