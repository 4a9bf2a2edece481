"""PyTorch's switch for backward threads. Source: torch.autograd.set_multithreading_enabled."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType

_enabled: ContextVar[bool] = ContextVar("gradhook_multithreading", default=True)


def is_multithreading_enabled() -> bool:
    """What set_multithreading_enabled set last, True at first."""
    return _enabled.get()


class set_multithreading_enabled:
    """Set the switch at once; as a context manager, until its end. mode: bool.

    A backward runs in the thread that called it either way: PyTorch has a thread a device, which
    the switch turns off. It is kept for code that sets it, and asked under compat("torch") by
    `_current_graph_task_execution_order`, which PyTorch answers only without threads.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.prev = _enabled.get()
        _enabled.set(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        _enabled.set(self.prev)
