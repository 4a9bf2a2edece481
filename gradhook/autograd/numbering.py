"""Sequence numbers of nodes: creation order, over all threads; and the creation log, which tells
what a thread made within a module call.

The log is for `when="complete"` hooks only: until the first of them is registered a number is
drawn by the counter itself, and nothing is tested for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

_count: Callable[[], int] = count().__next__


class _Log(threading.local):
    """numbers: what this thread drew since its outermost open region began; None without one."""

    numbers: list[int] | None = None


_log = _Log()


def _logged() -> int:
    n = _count()
    numbers = _log.numbers
    if numbers is not None:
        numbers.append(n)
    return n


class Numbering:
    """draw(): the next sequence number. listeners: called when draw became another function."""

    def __init__(self) -> None:
        self.draw: Callable[[], int] = _count
        self.listeners: list[Callable[[], None]] = []

    def start_logging(self) -> None:
        """Draw with the log from now on."""
        if self.draw is not _logged:
            self.draw = _logged
            for listener in self.listeners:
                listener()


numbering = Numbering()


class Region:
    """Between open and close: which numbers this thread draws. Regions nest as calls do."""

    def __init__(self) -> None:
        self.outermost = _log.numbers is None
        if _log.numbers is None:
            _log.numbers = []
        self.start = len(_log.numbers)

    def numbers(self) -> frozenset[int]:
        """Those drawn so far; none outside."""
        return frozenset((_log.numbers or [])[self.start :])

    def close(self) -> None:
        """End the region."""
        if self.outermost:
            _log.numbers = None
