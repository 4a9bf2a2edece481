"""The global registration hooks: they see, and may replace, what a module registers."""

from __future__ import annotations

from typing import Any

from gradhook.autograd.hook_notes import hook_name, note_owner
from gradhook.hooks.everywhere import everywhere
from gradhook.hooks.registry import HookTable

__all__ = ["everywhere", "replaced"]


def replaced(hooks: HookTable, kind: type, module: Any, name: str, value: Any) -> Any:
    """What `hook(module, name, value)` of each hook made of a value to be registered: a result that
    is not None takes its place for the next hook.

    kind: what a result must be. Errors: TypeError for another (PyTorch stores anything).
    """
    for hook in hooks.snapshot():
        try:
            result = hook(module, name, value)
        except BaseException as error:
            note_owner(error, "registration hook", hook, module)
            raise
        if result is None:
            continue
        if not isinstance(result, kind):
            raise TypeError(
                f"registration hook {hook_name(hook)!r} returned a {type(result).__name__} for "
                f"'{name}' of <{type(module).__name__}>, expected gradhook's {kind.__name__} or "
                "None; return None to keep what is registered"
            )
        value = result
    return value
