"""Host hooks: hooks that observe gradients as NumPy arrays, without making the device wait.

The copy into pinned memory starts where the hook stands in its order, so it shows what the hooks
before it left; the hook is called when the values have arrived, at the latest at the end of the
backward run. Contract: HOOKS.md A2 B18 (c).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradhook import profiler
from gradhook.autograd.binding import Binding
from gradhook.autograd.graph_task import Delivery, current_task
from gradhook.autograd.hook_notes import hook_name
from gradhook.streams import HostCopy


class HostHook:
    """A hook as it stands in a hook table: it starts the copies and queues the call of `fn`.

    fn gets the arguments of an ordinary hook, with NumPy arrays (read-only, its own to keep) in
    place of gradients. Errors: TypeError when fn cannot be called; RuntimeError when it returns a
    value.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise TypeError(f"hook is not callable: found {fn!r}, expected a function")
        self.fn = fn
        self.__name__ = hook_name(fn)

    def __call__(self, *args: Any) -> None:
        copies: list[HostCopy] = []
        call = HostCall(self.fn, _started(args, copies), copies, profiler.module_path.get())
        task = current_task()
        if task is None:
            call.deliver()
            return
        waiting = task.deliveries
        waiting.append(call)
        while waiting and waiting[0].done():
            waiting.pop(0).deliver()


class HostCall(Delivery):
    """A call of a host hook whose values are under way."""

    def __init__(self, fn: Any, args: Any, copies: list[HostCopy], path: str) -> None:
        self.fn, self.args, self.copies, self.path = fn, args, copies, path

    def done(self) -> bool:
        """Whether all its values have arrived."""
        return all(c.done() for c in self.copies)

    def wait(self) -> None:
        """Wait for the values, and with them for those of earlier calls."""
        for copy in sorted(self.copies, key=lambda c: c.number, reverse=True):
            copy.wait()

    def deliver(self) -> None:
        """Call the hook."""
        try:
            result = self.fn(*_arrived(self.args))
        except Exception as error:
            where = f" of module {self.path}" if self.path else ""
            error.add_note(f"in host hook '{hook_name(self.fn)}'{where}")
            raise
        if result is not None:
            raise RuntimeError(
                f"host hook '{hook_name(self.fn)}' returned a {type(result).__name__}, expected "
                "None: it observes a copy; register it without host=True to replace a gradient"
            )


def _started(value: Any, copies: list[HostCopy]) -> Any:
    """The value with a HostCopy for every Tensor in its tuples, lists and dicts."""
    if isinstance(value, Binding.tensor):
        copies.append(value.storage().host_async())
        return copies[-1]
    if type(value) in (tuple, list):
        return type(value)([_started(v, copies) for v in value])
    if type(value) is dict:
        return {k: _started(v, copies) for k, v in value.items()}
    return value


def _arrived(value: Any) -> Any:
    if isinstance(value, HostCopy):
        array = value.result().view()
        array.flags.writeable = False
        return array
    if type(value) in (tuple, list):
        return type(value)([_arrived(v) for v in value])
    if type(value) is dict:
        return {k: _arrived(v) for k, v in value.items()}
    return value


def host_hook(fn: Callable[..., Any], host: bool) -> Callable[..., Any]:
    """What goes into a hook table: fn itself, or with `host` the HostHook of it."""
    return HostHook(fn) if host else fn
