"""Notes on errors: which hook of what raised it, and where that was registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from gradhook.autograd.graph_task import GraphTask, current_task
from gradhook.hooks.calls import Call
from gradhook.hooks.everywhere import OF_CALLS, every_optimizer, everywhere
from gradhook.hooks.registry import HookTable

OF_MODULES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def hook_name(hook: Any) -> str:
    """The hook's own name, `<unknown>` for an object without one (PyTorch's word)."""
    return getattr(hook, "__name__", "<unknown>")


def noted(
    error: BaseException,
    kind: str,
    hook: Any,
    tables: Iterable[HookTable | None],
    title: str,
    task: GraphTask | None,
    node: str = "",
) -> None:
    """Note on the error which hook raised it, once.

    tables: where the hook may be registered; title: whose hook it is; node: the name of the node
    it fires at; task: the backward run.
    """
    place = next((p for t in tables if t is not None and (p := t.place_of(hook))), "")
    name = getattr(hook, "__qualname__", hook_name(hook)).rpartition("<locals>.")[2]
    note = (
        f"in {kind} '{name}'"
        + (f" (registered at {place})" if place else "")
        + (f" of {title}" if title else "")
        + (f", node {node}" if node else "")
        + ("" if task is None else f", pass #{task.id}")
    )
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def note_call(error: BaseException, kind: str, hook: Any, call: Call, node: str = "") -> None:
    """Note on the error which hook of which module call raised it. node: the barrier, if the hook
    fires in backward.
    """
    tables = [getattr(everywhere, name) for name in OF_CALLS]
    tables += [call.module.__dict__.get(name) for name in OF_MODULES]
    task = current_task() if node else None
    noted(error, kind, hook, tables, f"module {call.title}", task, node)


def note_owner(
    error: BaseException, kind: str, hook: Any, owner: Any, what: str = "module"
) -> None:
    """Note on the error which hook of which module, or other owner, raised it, outside a call."""
    tables = [table for table in vars(owner).values() if isinstance(table, HookTable)]
    for shared in (everywhere, every_optimizer):
        found = [getattr(shared, f.name) for f in dataclasses.fields(shared)]
        tables += [table for table in found if isinstance(table, HookTable)]
    noted(error, kind, hook, tables, f"{what} <{type(owner).__name__}>", current_task())
