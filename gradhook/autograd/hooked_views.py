"""Hooks of views: where the memory of a view is written, its history is replaced, and the hooks
that hung on the old one follow it, or are said to be lost.

PyTorch loses them without a word. Contract: HOOKS.md A2 B12.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from gradhook.autograd.hook_notes import hook_name
from gradhook.autograd.views import FOLLOWS, follow, refresh
from gradhook.hooks.notices import HookLostWarning, caller_depth


def note_hooked_view(view: Any) -> None:
    """A hook is being registered on this view, whose edge is up to date."""
    slot = view._view.base._slot_made()
    if slot.hooked_views is None:
        slot.hooked_views = []
    place = (view._node, view._nr)
    if not any(ref() is view and (node, nr) == place for ref, node, nr in slot.hooked_views):
        slot.hooked_views.append((weakref.ref(view), *place))


def tend_hooked_views(written: Any, op: str) -> None:
    """The history of a tensor was replaced by a write: views of its memory whose hooks hang on the
    old one. Warns for each that stays there. op: what wrote, in words.
    """
    while True:
        slot = written._slot
        if slot is not None and slot.hooked_views:
            kept = [_tended(view, node, nr, op) for view, node, nr in slot.hooked_views]
            slot.hooked_views = [entry for entry in kept if entry is not None]
        if written._view is None:
            return
        written = written._view.base


def _tended(ref: weakref.ref[Any], node: Any, nr: int, op: str) -> Any:
    """What to remember of one view from now on; None when no hook is left to follow."""
    view = ref()
    table = None if node.hooks is None else node.hooks.tensor.get(nr)
    if view is None or (not table and (node, nr) != (view._node, view._nr)):
        return None
    followed = bool(table) and FOLLOWS in table.all_flags  # type: ignore[union-attr]
    refresh(view)
    if (view._node, view._nr) == (node, nr):
        return ref, node, nr
    follow(view, table)
    for hook in () if table is None else table.snapshot():
        warnings.warn(
            f"hook '{hook_name(hook)}' of a view of shape {tuple(view._a.shape)} will not fire for "
            f"what is computed from now on: {op} wrote the memory of the view, so its history was "
            "replaced. Register the hook after the write, or with follow_inplace=True",
            HookLostWarning,
            stacklevel=caller_depth(),
        )
    return (ref, view._node, view._nr) if followed else None
