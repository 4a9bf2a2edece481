"""RemovableHandle: what every register_* function returns."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

# One counter for all kinds of hooks; next() on it is atomic, so ids are unique across threads.
_ids = itertools.count()


def draw_past(last_used: int) -> None:
    """Use up ids to last_used, so that no handle drawn later can have one of them.

    Unpickled hooks bring ids of another process along. Drawing, rather than replacing the counter,
    keeps every id unique without a lock.
    """
    while next(_ids) < last_used:
        pass


class RemovableHandle:
    """Removes one hook from its table: by remove(), or as a context manager on leaving the block.

    hooks_dict: the table, weakly referenced; a plain dict raises TypeError, as it takes no weak
    references. extra_dict: a dict or a list of dicts from which the same id is removed too.
    Attributes: id (int, unique in the process over all kinds of hooks), hooks_dict_ref (weak
    reference), extra_dict_ref (tuple of weak references), next_id (class; above all ids drawn).
    Source: torch.utils.hooks.RemovableHandle 2.13; there two threads can draw the same id.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref: weakref.ref[Any] = weakref.ref(hooks_dict)
        self.id = next(_ids)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        self.extra_dict_ref: tuple[weakref.ref[Any], ...] = ()
        if isinstance(extra_dict, dict):
            self.extra_dict_ref = (weakref.ref(extra_dict),)
        elif isinstance(extra_dict, list):
            self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extra_dict)

    def remove(self) -> None:
        """Take the hook out of its table. A second call, or one after the table died, does nothing.

        Running passes fire over a snapshot: the removal counts from the next firing on.
        """
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, int, tuple[Any, ...]]:
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # A table that was dead when pickled stays a dead reference.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self.id = state[1]
        if self.id >= RemovableHandle.next_id:
            draw_past(self.id)
            RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        extras = state[2] if len(state) > 2 and state[2] is not None else ()
        self.extra_dict_ref = tuple(
            weakref.ref(OrderedDict() if extra is None else extra) for extra in extras
        )

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()
