"""The one call path of modules: forward-pre hooks, input barrier, forward, output barrier, forward
hooks.

A module without hooks pays two attribute tests. Source of the order and of the return rules:
torch.nn.Module; where it differs (barriers are nodes, containers and kwargs are seen): HOOKS.md A2
B1-B3, B7-B10.
"""

from __future__ import annotations

import warnings
from threading import get_ident
from typing import Any

from gradhook.autograd.hook_notes import hook_name, note_call
from gradhook.autograd.module_hook_node import ModuleBackwardHookState
from gradhook.autograd.module_hook_options import OptionHookState
from gradhook.hooks.calls import FORWARD, FULL, OTHER, Call, get_here, new_here, outermost
from gradhook.hooks.everywhere import everywhere
from gradhook.hooks.registry import Entry, HookTable
from gradhook.nn import call_options, legacy_hook
from gradhook.nn.barriers import enter, leave

_NONE: tuple[Any, ...] = ()


def call_hooked(
    self: Any, is_call: Any, kinds: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """forward with the hooks of everywhere and of this module. is_call: the code of
    Module.__call__; kinds: the module's _hook_kinds.
    """
    e, own = everywhere, self.__dict__
    backward, backward_pre = own.get("_backward_hooks"), own.get("_backward_pre_hooks")
    flagged = (
        e.flagged
        or (backward and backward.all_flags) or (backward_pre and backward_pre.all_flags)
    )  # fmt: skip
    call: Any
    if kinds == FULL and (backward or backward_pre) and not (flagged or e.active):
        call = ModuleBackwardHookState()
    elif kinds == FORWARD and not e.active:
        call = Call()
    else:
        kinds, call = OTHER, _new_call(own, backward, backward_pre, flagged)
    here = get_here()
    if here.thread != get_ident():
        here = new_here()
    outer = here.call
    is_outermost = outer is None or not outer.top.open
    top = outermost(self, is_call) if is_outermost else outer.top  # type: ignore[union-attr]
    ids = top.ids
    call.module, call.top, call.position = self, top, len(ids)
    ids.append(id(self))
    here.call = call
    try:
        if kinds == FULL:
            call.pre_hooks = backward_pre.snapshot() if backward_pre else _NONE
            call.full_hooks = backward.snapshot() if backward else _NONE
            call.skipped = 0
            args, kwargs = enter(call, args, kwargs)
            return leave(call, self.forward(*args, **kwargs), args, kwargs)[0]
        if kinds == FORWARD:
            hooks = own.get("_forward_hooks")
            if hooks and not hooks.all_flags:
                entries = hooks.items_snapshot()
                output = self.forward(*args, **kwargs)
                return _run_forward_hooks(call, args, kwargs, output, entries, set())[0]
        if e.forward or own.get("_forward_hooks"):
            return _call_with_forward_hooks(call, own, args, kwargs, backward, backward_pre)
        return _call(call, own, args, kwargs, backward, backward_pre, _NONE, None)
    finally:
        here.call = outer
        if is_outermost:
            top.open = False


def _new_call(own: dict[str, Any], backward: Any, backward_pre: Any, flagged: Any) -> Any:
    """The record of a call; with state for backward hooks where there are any."""
    e = everywhere
    if not (backward or backward_pre or e.full_backward or e.full_backward_pre):
        return Call()
    return OptionHookState() if flagged or "_keeps_io" in own else ModuleBackwardHookState()


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
    call: Call, own: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    backward: Any, backward_pre: Any,
) -> Any:  # fmt: skip
    table = own.get("_forward_hooks")
    forward_hooks = _entries(everywhere.forward, table)
    ran: set[int] = set()
    flags = everywhere.forward.all_flags or (table is not None and table.all_flags)
    if not flags or not any("always_call" in flags for _, _, flags in forward_hooks):
        return _call(call, own, args, kwargs, backward, backward_pre, forward_hooks, ran)
    try:
        return _call(call, own, args, kwargs, backward, backward_pre, forward_hooks, ran)
    except BaseException as error:
        for key, hook, flags in forward_hooks:
            if "always_call" in flags and key not in ran:
                _call_always(call, args, kwargs, hook, flags, error)
        raise


def _call_always(
    call: Call, args: Any, kwargs: Any, hook: Any, flags: frozenset[str], first: BaseException
) -> None:
    """An always_call hook after a failure: its error never hides the first one. A KeyboardInterrupt
    or SystemExit in it goes on, with the first error as its context.
    """
    try:
        if "with_kwargs" in flags:
            hook(call.module, args, kwargs, None)
        else:
            hook(call.module, args, None)
    except Exception as error:
        note_call(error, "forward hook", hook, call)
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced "
            f"as another error was raised in forward: {error!r}",
            stacklevel=2,
        )
        _chained(first, error)


def _chained(first: BaseException, error: BaseException) -> None:
    """The first error shows the later one as its context, at the end of what it shows already."""
    seen = {id(error)}
    while first.__context__ is not None and id(first) not in seen:
        seen.add(id(first))
        first = first.__context__
    if id(first) not in seen:
        error.__context__ = None  # else it is the first error, which would show itself
        first.__context__ = error


def _call(
    call: Any,
    own: dict[str, Any],
    args: Any,
    kwargs: Any,
    backward: Any,
    backward_pre: Any,
    forward_hooks: tuple[Entry, ...],
    ran: Any,
) -> Any:
    """own: the module's `__dict__`, where its hook tables are; backward, backward_pre: two of
    those, None for one that was never made.
    """
    e, module = everywhere, call.module
    if own.get("_forward_pre_hooks") or e.forward_pre:
        for _, hook, flags in _entries(e.forward_pre, own.get("_forward_pre_hooks")):
            args, kwargs = _run_forward_pre(call, hook, flags, args, kwargs)
        backward, backward_pre = own.get("_backward_hooks"), own.get("_backward_pre_hooks")
        call = call_options.upgraded(call, own)
    keeps = type(call) is not ModuleBackwardHookState and "_keeps_io" in own
    if keeps:
        call_options.keep(call, own, args=args, kwargs=kwargs)
    full_hooks = legacy_hooks = _NONE
    if e.active:
        pre_hooks = _hooks(e.full_backward_pre, backward_pre)
        is_full = own.get("_full_backward", True)
        full_hooks = _hooks(e.full_backward, backward if is_full else None)
        legacy_hooks = _hooks(e.legacy_backward, None if is_full else backward)
    else:
        pre_hooks = backward_pre.snapshot() if backward_pre else _NONE
        if backward and own.get("_full_backward", True):
            full_hooks = backward.snapshot()
        elif backward:
            legacy_hooks = backward.snapshot()
    if not (pre_hooks or full_hooks):
        output = module.forward(*args, **kwargs)
        if forward_hooks:
            output, _ = _run_forward_hooks(call, args, kwargs, output, forward_hooks, ran)
    elif type(call) is ModuleBackwardHookState:
        state = call
        state.pre_hooks, state.full_hooks, state.skipped = pre_hooks, full_hooks, 0
        args, kwargs = enter(state, args, kwargs)
        output, node = leave(state, module.forward(*args, **kwargs), args, kwargs)
        if forward_hooks:
            output, replaced = _run_forward_hooks(call, args, kwargs, output, forward_hooks, ran)
            if replaced:  # the backward hooks are about the replaced output, as one event
                if node is not None:
                    node.transparent = True
                output, _ = leave(state, output, args, kwargs)
    else:
        output = _call_with_options(call, own, args, kwargs, pre_hooks, forward_hooks, ran)
    if legacy_hooks:
        legacy_hook.attach(module, legacy_hooks, args, output)
    if keeps:
        call_options.keep(get_here().call, own, output=output)
    return output


def _call_with_options(
    call: Any, own: dict[str, Any], args: Any, kwargs: Any, pre_hooks: tuple[Any, ...],
    forward_hooks: tuple[Entry, ...], ran: Any,
) -> Any:  # fmt: skip
    """forward and its hooks between barriers with options."""
    own_full = own.get("_backward_hooks") if own.get("_full_backward", True) else None
    state = call_options.state_of(call, pre_hooks, _entries(everywhere.full_backward, own_full))
    with call_options.Barriers(state) as barriers:
        args, kwargs = barriers.enter(args, kwargs)
        output = barriers.leave(state.module.forward(*args, **kwargs))
        if forward_hooks:
            output, replaced = _run_forward_hooks(state, args, kwargs, output, forward_hooks, ran)
            if replaced:
                output = barriers.leave(output)
    return output


def _run_forward_hooks(
    call: Call, args: Any, kwargs: Any, output: Any, hooks: tuple[Entry, ...], ran: set[int]
) -> tuple[Any, bool]:
    """All forward hooks; the output and whether one replaced it."""
    replaced, hook, module = False, None, call.module
    try:
        for key, hook, flags in hooks:
            ran.add(key)
            if "with_kwargs" in flags:
                result = hook(module, args, kwargs, output)
            else:
                result = hook(module, args, output)
            if result is not None:
                output, replaced = result, True
    except BaseException as error:
        note_call(error, "forward hook", hook, call)
        raise
    return output, replaced


def _run_forward_pre(
    call: Call, hook: Any, flags: frozenset[str], args: Any, kwargs: Any
) -> tuple[Any, Any]:
    """One forward-pre hook; the new args and kwargs. Errors: RuntimeError for a malformed pair."""
    module = call.module
    try:
        result = hook(module, args, kwargs) if "with_kwargs" in flags else hook(module, args)
    except BaseException as error:
        note_call(error, "forward-pre hook", hook, call)
        raise
    if result is None:
        return args, kwargs
    if "with_kwargs" not in flags:
        return (result if isinstance(result, tuple) else (result,)), kwargs
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
            f"{result}. (hook '{hook_name(hook)}' of {call.title})"
        )
    new_args, new_kwargs = result
    if not isinstance(new_args, tuple | list) or not isinstance(new_kwargs, dict):
        raise RuntimeError(
            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got a "
            f"{type(new_args).__name__} and a {type(new_kwargs).__name__}; expected a tuple and a "
            f"dict (hook '{hook_name(hook)}' of {call.title})"
        )
    return tuple(new_args), new_kwargs
