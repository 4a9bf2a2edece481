"""Finding the hooks of one class in a module's table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from gradhook.nn.module import Module

H = TypeVar("H")


def hooks_of(module: Module, table: str, kind: type[H]) -> Iterator[tuple[int, H]]:
    """(id, hook) of each hook of a class in a hook table; no table is made where there is none.

    The table may be changed while this runs.
    """
    for key, hook in list(module.__dict__.get(table, {}).items()):
        if isinstance(hook, kind):
            yield key, hook
