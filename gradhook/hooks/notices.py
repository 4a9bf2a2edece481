"""Warnings about hooks: each once a module and kind, with the reason."""

from __future__ import annotations

import sys
import warnings
import weakref
from typing import Any


class HookWarning(UserWarning):
    """The base of gradhook's warnings about hooks."""


class HookLostWarning(HookWarning):
    """A tensor's hook will not fire any more: the history it hangs on was replaced."""


class HookNotFiringWarning(HookWarning):
    """A module's backward hooks cannot fire for a call, or see less than the call has."""


_said: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def warn_once(category: type[HookWarning], of: Any, kind: str, text: str) -> None:
    """Warn, unless this kind was warned of for this object (a module, a type) before."""
    kinds = _said.setdefault(of, set())
    if kind not in kinds:
        kinds.add(kind)
        warnings.warn(text, category, stacklevel=caller_depth())


def caller_depth() -> int:
    """How far up the first caller outside gradhook is, as `stacklevel` counts."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("gradhook."):
        depth, frame = depth + 1, frame.f_back
    return depth
