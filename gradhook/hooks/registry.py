"""HookTable: the one table class for every kind of hook."""

from __future__ import annotations

import copy
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeAlias

from gradhook.hooks.declared import is_declared
from gradhook.hooks.handle import RemovableHandle, draw_past

Hook: TypeAlias = Callable[..., Any]
Entry: TypeAlias = tuple[int, Hook, frozenset[str]]

_NO_FLAGS: frozenset[str] = frozenset()
# Guards "mutate, then forget the snapshot" against "build the snapshot, then keep it". One lock for
# all tables: it is taken on registration and on the first firing after a change, never else.
# Re-entrant, because freeing a hook may run a finaliser that removes another one.
_lock = threading.RLock()


class HookTable(OrderedDict[int, Hook]):
    """Hooks in firing order, keyed by handle id; an OrderedDict as PyTorch's hook tables are.

    Hooks fire over a snapshot, a tuple that no later change touches: a hook, or another thread, may
    register and remove hooks while the table fires, which counts from the next firing on. The
    snapshot is cached until the table changes, so firing costs no copy. Each id may carry flags
    ("with_kwargs", "always_call"), which go with the hook; they replace PyTorch's parallel dicts of
    ids. Equality is OrderedDict's and ignores flags.
    """

    __slots__ = (
        "_entries", "_flags", "_former", "_heir", "_hooks", "_places", "all_flags", "declared",
    )  # fmt: skip

    _hooks: tuple[Hook, ...] | None
    _entries: tuple[Entry, ...] | None
    _flags: dict[int, frozenset[str]]
    _places: dict[int, tuple[str, int]]  # file and line of the registration
    all_flags: frozenset[str]  # those that any id carries
    _heir: weakref.ref[HookTable] | None  # where hooks of this table moved; it holds this one
    _former: list[HookTable]
    declared: bool  # whether the last snapshot holds declared hooks

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._hooks = self._entries = None
        self._flags = {}
        self._places = {}
        self._heir = None
        self._former = []
        self.all_flags = _NO_FLAGS
        self.declared = False
        super().__init__(*args, **kwargs)

    # ---- what firing uses

    def snapshot(self) -> tuple[Hook, ...]:
        """The hooks in firing order, as they are now. O(1) while the table is unchanged."""
        hooks = self._hooks
        if hooks is None:
            with _lock:
                hooks = self._hooks = tuple(self.values())
                self.declared = any(map(is_declared, hooks))
        return hooks

    def items_snapshot(self) -> tuple[Entry, ...]:
        """(id, hook, flags) in firing order, as they are now. O(1) while the table is unchanged."""
        entries = self._entries
        if entries is None:
            with _lock:
                flags = self._flags
                entries = self._entries = tuple(
                    (key, hook, flags.get(key, _NO_FLAGS)) for key, hook in self.items()
                )
        return entries

    def flags(self, key: int) -> frozenset[str]:
        """The flags of one id; empty when it has none or is not in the table."""
        return self._flags.get(key, _NO_FLAGS)

    def place_of(self, hook: Hook) -> str:
        """Where a hook of this table was registered, as "file:line"; "" when that is unknown."""
        for key, found, _ in self.items_snapshot():
            if found is hook and key in self._places:
                file, line = self._places[key]
                return f"{file}:{line}"
        return ""

    # ---- registration

    def add(
        self, hook: Hook, *, prepend: bool = False, flags: Iterable[str] = ()
    ) -> RemovableHandle:
        """Register a hook: last, or first with prepend. Returns the handle that removes it.

        Raises TypeError when hook cannot be called (PyTorch notices only when it fires).
        """
        if not callable(hook):
            raise TypeError(
                f"hook is not callable: found {hook!r} of type {type(hook).__qualname__}, expected "
                "a function or an object with __call__; pass the function itself, not its result"
            )
        handle = RemovableHandle(self)
        with _lock:
            if flags:
                self._flags[handle.id] = frozenset(flags)
            self._places[handle.id] = _caller()
            super().__setitem__(handle.id, hook)
            if prepend:
                super().move_to_end(handle.id, last=False)
            self._forget()
        return handle

    def hand_over(self, heir: HookTable, flag: str) -> None:
        """Move the hooks that carry a flag to the end of another table, where their handles follow
        them.
        """
        with _lock:
            for key, hook, flags in self.items_snapshot():
                if flag in flags:
                    heir._flags[key] = flags
                    if key in self._places:
                        heir._places[key] = self._places[key]
                    heir[key] = hook
                    del self[key]
            self._heir = weakref.ref(heir)
            heir._former.append(self)

    # ---- mutators: each forgets the snapshot after the change

    def _forget(self) -> None:
        self._hooks = self._entries = None
        self.all_flags = _NO_FLAGS.union(*self._flags.values()) if self._flags else _NO_FLAGS

    def __setitem__(self, key: int, hook: Hook) -> None:
        with _lock:
            super().__setitem__(key, hook)
            self._forget()

    def __delitem__(self, key: int) -> None:
        with _lock:
            super().__delitem__(key)
            self._flags.pop(key, None)
            self._places.pop(key, None)
            self._forget()

    def pop(self, key: int, *default: Any) -> Any:
        """Remove one id and return its hook, or the default when there is none (else KeyError)."""
        with _lock:
            heir = None if self._heir is None else self._heir()
            if key not in self and heir is not None:
                return heir.pop(key, *default)
            if key not in self and default:
                return default[0]
            hook = self[key]
            del self[key]
            return hook

    def popitem(self, last: bool = True) -> tuple[int, Hook]:
        """Remove and return the last (or first) pair. KeyError when the table is empty."""
        with _lock:
            if not self:
                raise KeyError("the hook table is empty")
            key = next(reversed(self) if last else iter(self))
            return key, self.pop(key)

    def clear(self) -> None:
        """Remove every hook."""
        with _lock:
            super().clear()
            self._flags.clear()
            self._places.clear()
            self._forget()

    def setdefault(self, key: int, default: Any = None) -> Any:
        """The hook of an id, registered as default first when there is none."""
        with _lock:
            if key not in self:
                self[key] = default
            return self[key]

    def move_to_end(self, key: int, last: bool = True) -> None:
        """Make an id fire last (or first). KeyError when it is not in the table."""
        with _lock:
            super().move_to_end(key, last)
            self._forget()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As dict.update; another HookTable brings its flags along."""
        with _lock:
            super().update(*args, **kwargs)
            if args and isinstance(args[0], HookTable):
                self._flags.update(args[0]._flags)
                self._places.update(args[0]._places)
            self._forget()

    def __ior__(self, other: Any) -> Self:  # type: ignore[override]  # OrderedDict's is overloaded
        self.update(other)
        return self

    def __or__(self, other: Any) -> Self:  # type: ignore[override]  # OrderedDict's is overloaded
        if not isinstance(other, dict):
            return NotImplemented
        result = self.copy()
        result.update(other)
        return result

    # ---- copies

    def copy(self) -> Self:
        """A table of its own with the same hooks, order and flags."""
        result = type(self)()
        result.update(self)
        return result

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A table of its own; functions are shared, bound methods of what is copied re-bound."""
        result = type(self)()
        memo[id(self)] = result
        for key, hook, flags in self.items_snapshot():
            if flags:
                result._flags[key] = flags
            result[key] = copy.deepcopy(hook, memo)
        result._places.update(self._places)
        return result

    def __reduce__(self) -> Any:
        # Flags go as state, not as constructor arguments, so that a hook may refer to its table.
        return type(self), (), dict(self._flags), None, iter(self.items())

    def __setstate__(self, flags: Mapping[int, frozenset[str]]) -> None:
        self._flags = {key: flags[key] for key in self if key in flags}
        self._forget()
        draw_past(max((key for key in self if isinstance(key, int)), default=-1))


def _caller() -> tuple[str, int]:
    """File and line of the nearest caller outside gradhook."""
    frame = sys._getframe(2)
    while (outer := frame.f_back) is not None:
        if not f"{frame.f_globals.get('__name__')}.".startswith("gradhook."):
            break
        frame = outer
    return frame.f_code.co_filename, frame.f_lineno
