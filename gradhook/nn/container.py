"""Sequential, ModuleList and ModuleDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from gradhook.nn.module import Module


class _Numbered(Module):
    """Children named "0", "1", ... in order."""

    def _key(self, index: int) -> str:
        """The name of the index-th child; negative from the end. Errors: IndexError."""
        size, index = len(self), operator.index(index)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index]

    def _renumber(self, modules: Iterable[Module]) -> None:
        self.__dict__["_modules"] = {str(k): m for k, m in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._of(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def _of(self, items: list[tuple[str, Module]]) -> Any:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        for name in list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]:
            delattr(self, name)
        self._renumber(self._modules.values())

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before the index-th. Errors: IndexError."""
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        self._check(module)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def append(self, module: Module) -> Self:
        """Put a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, index: int | slice) -> Module:
        """Remove and return the index-th module."""
        found = self[index]
        del self[index]
        return found

    @staticmethod
    def _check(module: Any) -> None:
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")


class Sequential(_Numbered):
    """Modules called one after the other: Sequential(a, b) or Sequential(OrderedDict(first=a,
    then=b)).
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for k, module in enumerate(args):
                self.add_module(str(k), module)

    def _of(self, items: list[tuple[str, Module]]) -> Any:
        return type(self)(OrderedDict(items))

    def forward(self, input: Any) -> Any:
        """What the modules make of input, in order."""
        for module in self._modules.values():
            input = module(input)
        return input

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Put all modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is "
                "given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is "
                "given."
            )
        return self.extend(list(other))

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*(list(self) * other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        self._renumber(list(self * other))
        return self


class ModuleList(_Numbered):
    """A list of modules that are registered. Source: torch.nn.ModuleList."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _of(self, items: list[tuple[str, Module]]) -> Any:
        return type(self)(module for _, module in items)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Put all modules at the end. Errors: TypeError when they are not iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the index-th."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _child_reprs(self) -> list[tuple[str, str]]:
        """Neighbours that print alike are shown once: (0-2): 3 x Linear(...)."""
        groups: list[tuple[int, int, str]] = []
        for k, module in enumerate(self):
            text = repr(module)
            if groups and groups[-1][2] == text:
                groups[-1] = (groups[-1][0], k, text)
            else:
                groups.append((k, k, text))
        return [
            (str(a), text) if a == b else (f"{a}-{b}", f"{b - a + 1} x {text}")
            for a, b, text in groups
        ]


class ModuleDict(Module):
    """A dict of modules that are registered. Source: torch.nn.ModuleDict."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        found: Module = self._modules[key]
        return found

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return a module. Errors: KeyError."""
        found = self[key]
        del self[key]
        return found

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from (name, module) pairs.

        Errors: TypeError, ValueError.
        """
        if isinstance(modules, (Mapping, ModuleDict)):
            pairs: Iterable[Any] = modules.items()
        elif isinstance(modules, Iterable):
            pairs = modules
        else:
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        for k, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{k} should be Iterable; "
                    f"is{type(pair).__name__}"
                )
            entry = tuple(pair)
            if len(entry) != 2:
                raise ValueError(
                    f"ModuleDict update sequence element #{k} has length {len(entry)}; 2 is "
                    "required"
                )
            self[entry[0]] = entry[1]


__all__ = ["ModuleDict", "ModuleList", "Sequential"]
