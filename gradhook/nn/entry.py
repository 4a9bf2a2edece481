"""Module.__call__, never compiled: hooks find the outermost module call by its frame.

See hooks/calls.py; the call of a module with hooks goes on in nn/call.py.
"""

from __future__ import annotations

from typing import Any

from gradhook.hooks.everywhere import everywhere
from gradhook.nn.call import call_hooked


def call_module(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Module.__call__: forward with the hooks of everywhere and of this module."""
    kinds = self._hook_kinds
    if not (kinds or everywhere.active):
        return self.forward(*args, **kwargs)
    return call_hooked(self, call_module.__code__, kinds, args, kwargs)
