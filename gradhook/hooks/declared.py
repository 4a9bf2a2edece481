"""Declared hooks: hooks that say what they do to a gradient, so that the engine can do it while it
accumulates. What they are: device_hooks.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any


class DeclaredHook:
    """A hook whose effect is declared as steps of the accumulate kernel.

    stages: the steps for a gradient like `array`. changed: the same by array functions, `xp` being
    the table's namespace over arrays or Tensors; observe: what it notes of an array.
    """

    def stages(self, array: Any) -> Sequence[Any]:
        """The steps that the kernel is composed of."""
        raise NotImplementedError(type(self).__name__)

    def applied(self, array: Any) -> Any:
        """The gradient after the hook, by array functions."""
        raise NotImplementedError(type(self).__name__)


def is_declared(hook: Any) -> bool:
    """Whether a hook is a declared one."""
    return isinstance(hook, DeclaredHook)


def leading(hooks: Sequence[Any]) -> list[DeclaredHook]:
    """The declared hooks before the first other one."""
    return list(takewhile(is_declared, hooks))
