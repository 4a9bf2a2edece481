"""Counts of what moves between device and host, and of kernel launches, with the module that asked.

`transfers()` and `launches()` are context managers; all that are open in the current context
count. Given the model, they name its modules by their dotted paths, also in forward.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, Self

from gradhook import backend
from gradhook.hooks.everywhere import everywhere
from gradhook.hooks.handle import RemovableHandle


class Transfer(NamedTuple):
    """One copy between device and host. nbytes: its size; module: dotted path of the module call,
    "" outside; kind: "d2h" (device to host) or "h2d".
    """

    nbytes: int
    module: str
    kind: str = "d2h"


class Launch(NamedTuple):
    """One launch of a kernel of gradhook. nbytes: read and written; module: as of a Transfer."""

    name: str
    nbytes: int
    module: str


_counters: ContextVar[tuple[_Counts, ...]] = ContextVar("gradhook_counters", default=())
module_path: ContextVar[str] = ContextVar("gradhook_module_path", default="")


class _Counts:
    """What was counted: `count`, `nbytes`, `events`, `by_module()`."""

    events: list[Any]

    def __init__(self, model: Any = None) -> None:
        self.events = []
        self.paths: dict[int, str] = {}
        self._handles: list[RemovableHandle] = []
        self._model = model
        if model is not None:
            self.paths = {id(m): n or type(m).__name__ for n, m in model.named_modules()}

    @property
    def count(self) -> int:
        """How many."""
        return len(self.events)

    @property
    def nbytes(self) -> int:
        """How many bytes in all."""
        return sum(e.nbytes for e in self.events)

    def by_module(self) -> dict[str, int]:
        """Bytes by the module path that asked."""
        table: dict[str, int] = {}
        for e in self.events:
            table[e.module] = table.get(e.module, 0) + e.nbytes
        return table

    def __enter__(self) -> Self:
        _counters.set((*_counters.get(), self))
        if self._model is not None:
            self._handles = [
                everywhere.forward_pre.add(_enters, prepend=True),
                everywhere.forward.add(_leaves, flags=("always_call",)),
            ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        _counters.set(tuple(c for c in _counters.get() if c is not self))
        while self._handles:
            self._handles.pop().remove()


class transfers(_Counts):
    """`with profiler.transfers(model) as t:` collects every copy between device and host made
    inside: a `Transfer` each. model: whose modules are named by path (None: by class, in hooks).
    """


class launches(_Counts):
    """`with profiler.launches(model) as t:` collects every launch of gradhook's own kernels made
    inside: a `Launch` each. Launches that CuPy makes for its own functions are not seen.
    """

    def by_name(self) -> dict[str, int]:
        """How many launches of each kernel."""
        table: dict[str, int] = {}
        for e in self.events:
            table[e.name] = table.get(e.name, 0) + 1
        return table


counters = _counters.get  # the `transfers()` and `launches()` that count here and now


def path_of(module: Any) -> str:
    """A module's dotted path in the model that an open counter was given, else its class."""
    for counter in _counters.get():
        if id(module) in counter.paths:
            return counter.paths[id(module)]
    return type(module).__name__


class inside:
    """What is counted within belongs to this module."""

    def __init__(self, module: Any) -> None:
        self.path = path_of(module)

    def __enter__(self) -> None:
        self.outer = module_path.get()
        module_path.set(self.path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        module_path.set(self.outer)


_outer_paths: ContextVar[tuple[str, ...]] = ContextVar("gradhook_outer_paths", default=())


def _enters(module: Any, args: Any) -> None:
    _outer_paths.set((*_outer_paths.get(), module_path.get()))
    module_path.set(path_of(module))


def _leaves(module: Any, args: Any, output: Any) -> None:
    outer = _outer_paths.get()
    if outer:
        module_path.set(outer[-1])
        _outer_paths.set(outer[:-1])


def count_transfer(nbytes: int, kind: str = "d2h") -> None:
    """A copy of nbytes between device and host was made. kind: "d2h" or "h2d"."""
    for counter in _counters.get():
        if isinstance(counter, transfers):
            counter.events.append(Transfer(nbytes, module_path.get(), kind))


def count_launch(name: str, nbytes: int) -> None:
    """A kernel of gradhook was launched that reads and writes nbytes in all."""
    for counter in _counters.get():
        if isinstance(counter, launches):
            counter.events.append(Launch(name, nbytes, module_path.get()))


backend.on_transfer(count_transfer)
