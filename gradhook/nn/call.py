"""The one call path of modules: forward-pre hooks, input barrier, forward, output barrier, forward
hooks.

A module without hooks pays two attribute tests. Source of the order and of the return rules:
torch.nn.Module; where it differs (barriers are nodes, containers and kwargs are seen): HOOKS.md A2
B1-B3, B7, B9, B10.
"""

from __future__ import annotations

import warnings
from typing import Any

from gradhook.autograd.module_hook_node import ModuleBackwardHookState
from gradhook.autograd.module_hook_runners import noted
from gradhook.hooks.everywhere import everywhere
from gradhook.hooks.registry import Entry, HookTable
from gradhook.nn import legacy_hook
from gradhook.nn.barriers import enter, leave

_NONE: tuple[Any, ...] = ()


def call_module(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Module.__call__: forward with the hooks of everywhere and of this module."""
    e = everywhere
    if (
        self._has_hooks or e.forward or e.forward_pre
        or e.full_backward or e.full_backward_pre or e.legacy_backward
    ):  # fmt: skip
        own = self.__dict__
        if not e.forward and not own.get("_forward_hooks"):
            return _call(self, own, args, kwargs, _NONE, None)
        return _call_with_forward_hooks(self, own, args, kwargs)
    return self.forward(*args, **kwargs)


def _entries(shared: HookTable, own: HookTable | None) -> tuple[Entry, ...]:
    """Hooks with their flags: the global ones, then the module's."""
    if not own:
        return shared.items_snapshot() if shared else _NONE
    return (*shared.items_snapshot(), *own.items_snapshot()) if shared else own.items_snapshot()


def _hooks(shared: HookTable, own: HookTable | None) -> tuple[Any, ...]:
    if not own:
        return shared.snapshot() if shared else _NONE
    return (*shared.snapshot(), *own.snapshot()) if shared else own.snapshot()


def _call_with_forward_hooks(
    module: Any, own: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    forward_hooks = _entries(everywhere.forward, own.get("_forward_hooks"))
    ran: set[int] = set()
    if not any("always_call" in flags for _, _, flags in forward_hooks):
        return _call(module, own, args, kwargs, forward_hooks, ran)
    try:
        return _call(module, own, args, kwargs, forward_hooks, ran)
    except BaseException:
        for key, hook, flags in forward_hooks:
            if "always_call" in flags and key not in ran:
                _call_always(module, args, kwargs, hook, flags)
        raise


def _call_always(module: Any, args: Any, kwargs: Any, hook: Any, flags: frozenset[str]) -> None:
    """An always_call hook after a failure: it never hides the first error."""
    try:
        hook(module, args, kwargs, None) if "with_kwargs" in flags else hook(module, args, None)
    except Exception as error:
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced "
            f"as another error was raised in forward: {error!r}",
            stacklevel=2,
        )


def _call(
    module: Any,
    own: dict[str, Any],
    args: Any,
    kwargs: Any,
    forward_hooks: tuple[Entry, ...],
    ran: Any,
) -> Any:
    """own: the module's `__dict__`, where its hook tables are."""
    e = everywhere
    if e.forward_pre or own.get("_forward_pre_hooks"):
        for _, hook, flags in _entries(e.forward_pre, own.get("_forward_pre_hooks")):
            args, kwargs = _run_forward_pre(module, hook, flags, args, kwargs)
    backward, backward_pre = own.get("_backward_hooks"), own.get("_backward_pre_hooks")
    pre_hooks = full_hooks = legacy_hooks = _NONE
    if backward_pre or e.full_backward_pre:
        pre_hooks = _hooks(e.full_backward_pre, backward_pre)
    is_full = own.get("_full_backward", True)
    if backward and is_full and not e.full_backward:
        full_hooks = backward.snapshot()
    elif backward or e.full_backward:
        full_hooks = _hooks(e.full_backward, backward if is_full else None)
    if e.legacy_backward or not is_full:
        legacy_hooks = _hooks(e.legacy_backward, None if is_full else backward)
    if not (pre_hooks or full_hooks):
        output = module.forward(*args, **kwargs)
        if forward_hooks:
            output, _ = _run_forward_hooks(module, args, kwargs, output, forward_hooks, ran)
    else:
        state = ModuleBackwardHookState()
        state.module, state.pre_hooks, state.full_hooks = module, pre_hooks, full_hooks
        state.skipped = 0
        args, kwargs = enter(state, args, kwargs)
        output, node = leave(state, module.forward(*args, **kwargs))
        if forward_hooks:
            output, replaced = _run_forward_hooks(module, args, kwargs, output, forward_hooks, ran)
            if replaced:  # the backward hooks are about the replaced output, as one event
                if node is not None:
                    node.transparent = True
                output, _ = leave(state, output)
    if legacy_hooks:
        legacy_hook.attach(module, legacy_hooks, output)
    return output


def _run_forward_hooks(
    module: Any, args: Any, kwargs: Any, output: Any, hooks: tuple[Entry, ...], ran: set[int]
) -> tuple[Any, bool]:
    """All forward hooks; the output and whether one replaced it."""
    replaced = False
    for key, hook, flags in hooks:
        ran.add(key)
        with_kwargs = (kwargs,) if "with_kwargs" in flags else ()
        try:
            result = hook(module, args, *with_kwargs, output)
        except BaseException as error:
            noted(error, "forward hook", hook, module)
            raise
        if result is not None:
            output, replaced = result, True
    return output, replaced


def _run_forward_pre(
    module: Any, hook: Any, flags: frozenset[str], args: Any, kwargs: Any
) -> tuple[Any, Any]:
    """One forward-pre hook; the new args and kwargs. Errors: RuntimeError for a malformed pair."""
    try:
        result = hook(module, args, kwargs) if "with_kwargs" in flags else hook(module, args)
    except BaseException as error:
        noted(error, "forward-pre hook", hook, module)
        raise
    if result is None:
        return args, kwargs
    if "with_kwargs" not in flags:
        return (result if isinstance(result, tuple) else (result,)), kwargs
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
            f"{result}."
        )
    new_args, new_kwargs = result
    if not isinstance(new_args, tuple | list) or not isinstance(new_kwargs, dict):
        raise RuntimeError(
            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got a "
            f"{type(new_args).__name__} and a {type(new_kwargs).__name__}; expected a tuple and a "
            f"dict"
        )
    return tuple(new_args), new_kwargs
