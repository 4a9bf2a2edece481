"""Values made when their names are first asked for.

Importing gradhook defines hundreds of functions, methods and modules that a program never uses. A
function's text is compiled, and a module imported, by the first look-up; the module or class that
was asked keeps what was made, so the next look-up is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

Make = Callable[[], Any]


class Later(Mapping[str, Any]):
    """Names and their values, each made by the first look-up; to ask for the names makes none."""

    def __init__(self) -> None:
        self._makers: dict[str, Make] = {}
        self._made: dict[str, Any] = {}

    def put(self, name: str, make: Make) -> None:
        """The value of a name is what `make()` returns; it takes the place of an earlier one."""
        self._makers[name] = make
        self._made.pop(name, None)

    def put_modules(self, package: str, names: str) -> None:
        """The values of these names, separated by spaces, are modules of a package."""
        for name in names.split():
            self.put(name, lambda path=f"{package}.{name}": import_module(path))  # type: ignore[misc]

    def put_from(self, module: str, names: str) -> None:
        """The values of these names, separated by spaces, are a module's of the same names."""
        for name in names.split():
            self.put(name, lambda name=name: getattr(import_module(module), name))  # type: ignore[misc]

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            return self._made.setdefault(name, self._makers[name]())
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def attributes(
    module: dict[str, Any], *tables: Later
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` (PEP 562) of a module that has the names of the tables, too, and
    keeps what was asked for. module: its globals.
    """

    def get(name: str) -> Any:
        for table in tables:
            if name in table:
                return module.setdefault(name, table[name])
        raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*module, *(name for table in tables for name in table)})

    return get, names


class LaterAttribute:
    """An attribute of a class, made by the first look-up on the class or an instance."""

    __slots__ = ("make", "name", "owner")

    def __init__(self, owner: type, name: str, make: Make) -> None:
        self.owner, self.name, self.make = owner, name, make

    def __get__(self, instance: object, kind: type) -> Any:
        value = self.make()
        if vars(self.owner).get(self.name) is self:
            setattr(self.owner, self.name, value)
        return value.__get__(instance, kind)
