"""Objects that own hooks: tables made on demand, which can be listed and emptied by kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gradhook.hooks.registry import Hook, HookTable


def table_of(hooks: Any) -> HookTable:
    """The table itself, or a HookTable with the hooks of another dict.

    Errors: TypeError for what is no dict of id: hook.
    """
    if isinstance(hooks, HookTable):
        return hooks
    if not isinstance(hooks, dict):
        raise TypeError(
            f"a hook table is a dict of id: hook, found {type(hooks).__name__}; assign an "
            "OrderedDict, an empty one to remove all hooks"
        )
    return HookTable(hooks)


class LazyTable:
    """A hook table that its owner makes when it is first read; from then on it lies in the owner's
    `__dict__` under the same name.

    kind: what hooks() calls its hooks, the name of the registering method without "register_" and
    "_hook". turns_on: an attribute and the bit of it that is set then, since whoever holds the
    table may write to it. A dict that is assigned to the name becomes the table; deleting the
    name forgets it.
    """

    name: str

    def __init__(self, kind: str, turns_on: tuple[str, int] | None = None) -> None:
        self.kind = kind
        self.turns_on = turns_on

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type) -> HookTable:
        if owner is None:
            raise AttributeError(f"{kind.__name__}.{self.name}: each object has a table of its own")
        found = owner.__dict__.get(self.name)
        return found if isinstance(found, HookTable) else self._put(owner, found or HookTable())

    def __set__(self, owner: Any, hooks: Any) -> None:
        self._put(owner, hooks)

    def __delete__(self, owner: Any) -> None:
        if owner.__dict__.pop(self.name, None) is None:
            raise AttributeError(f"'{type(owner).__name__}' object has no table {self.name} yet")

    def _put(self, owner: Any, hooks: Any) -> HookTable:
        table = table_of(hooks)
        if self.turns_on is not None:
            turn_on(owner, *self.turns_on)
        owner.__dict__[self.name] = table
        return table


def turn_on(owner: Any, attribute: str, bits: int) -> None:
    """Set bits of an attribute of this object alone; the class says what they start from."""
    owner.__dict__[attribute] = getattr(owner, attribute) | bits


class RegisteredHook(NamedTuple):
    """One hook of an owner: its kind, its handle's id, itself, its flags ("with_kwargs", ...)."""

    kind: str
    id: int
    hook: Hook
    flags: frozenset[str]


class HookOwner:
    """What has LazyTables: its hooks can be listed, and removed by kind."""

    @classmethod
    def _tables(cls) -> Iterator[LazyTable]:
        """The tables of the class, a base class's first, each in the order of definition."""
        for base in reversed(cls.__mro__):
            for table in vars(base).values():
                if isinstance(table, LazyTable):
                    yield table

    def _filled_tables(self) -> dict[str, HookTable]:
        """The tables that hold hooks, by attribute."""
        names = [table.name for table in self._tables() if self.__dict__.get(table.name)]
        return {name: self.__dict__[name] for name in names}

    def _kind(self, table: LazyTable, flags: frozenset[str]) -> str:
        return "backward" if "legacy" in flags else table.kind

    def _entries(self, kind: str | None) -> list[tuple[HookTable, RegisteredHook]]:
        """The hooks of one kind, or of all, with the table each is in."""
        found = []
        for table in self._tables():
            hooks = table_of(self.__dict__.get(table.name) or {})
            for key, hook, flags in hooks.items_snapshot():
                entry = RegisteredHook(self._kind(table, flags), key, hook, flags)
                if kind is None or kind == entry.kind:
                    found.append((hooks, entry))
        return found

    def _check_kind(self, kind: str | None) -> None:
        known = {table.kind for table in self._tables()}
        known |= {"backward"} if "full_backward" in known else set()
        if kind is not None and kind not in known:
            raise ValueError(
                f"unknown kind of hook {kind!r} for {type(self).__name__}; the kinds are "
                + ", ".join(sorted(known))
            )

    def _removed(self, kind: str | None) -> int:
        """Remove the hooks of one kind, or of all; how many there were."""
        entries = self._entries(kind)
        for hooks, entry in entries:
            hooks.pop(entry.id, None)
        return len(entries)
