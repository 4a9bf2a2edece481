"""Counts of what leaves the device: every host copy with its bytes and the module path that asked.

`transfers()` is a context manager; the innermost ones of the current context all count.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import NamedTuple, Self


class Transfer(NamedTuple):
    """One copy between device and host. nbytes: its size; module: dotted path of the module call,
    "" outside.
    """

    nbytes: int
    module: str


_counters: ContextVar[tuple[transfers, ...]] = ContextVar("gradhook_transfers", default=())
module_path: ContextVar[str] = ContextVar("gradhook_module_path", default="")


class transfers:
    """`with profiler.transfers() as t:` collects every host copy made inside: `t.count`,
    `t.nbytes`, `t.events`.
    """

    def __init__(self) -> None:
        self.events: list[Transfer] = []

    @property
    def count(self) -> int:
        """How many copies."""
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
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        _counters.set(tuple(c for c in _counters.get() if c is not self))


counters = _counters.get  # the `transfers()` that count here and now


class inside:
    """What is counted within belongs to this module path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        self.outer = module_path.get()
        module_path.set(f"{self.outer}.{self.path}" if self.outer else self.path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        module_path.set(self.outer)


def count_transfer(nbytes: int) -> None:
    """A copy of nbytes between device and host was made."""
    for counter in _counters.get():
        counter.events.append(Transfer(nbytes, module_path.get()))
