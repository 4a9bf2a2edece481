"""save_on_cpu: saved tensors wait in host memory for the backward.

On a CUDA device nobody waits: the copy to pinned memory runs on a side stream while the forward
goes on, and while the backward of one node runs, what the next one saved is on its way back.
Source: torch.autograd.graph.save_on_cpu; HOOKS.md B15.
"""

from __future__ import annotations

import weakref
from typing import Any

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.autograd.saved_hooks import saved_tensors_hooks
from gradhook.streams import Event, copy_from_host, copy_to_host, current_stream


class save_on_cpu(saved_tensors_hooks):
    """`with save_on_cpu():` tensors that operations inside save for backward are kept in host
    memory, and moved back when the backward needs them. Tensors on the CPU are copied, so a later
    write in place does not change what was saved.

    pin_memory: accepted and changes nothing: copies from a device are always in pinned memory,
    without which the host would have to wait. device_type: "cuda".
    Errors: ValueError for another device_type. Source: torch.autograd.graph.save_on_cpu.
    """

    shares = False

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if device_type != "cuda":
            raise ValueError(f"device_type: found {device_type!r}, expected 'cuda'")
        last: list[weakref.ref[Any]] = []

        def pack(t: Any) -> Any:
            if not backend.is_cupy(t._a):
                return Copied(t._a)
            parked = Parked(t._a, last[0]() if last else None)
            last[:] = [weakref.ref(parked)]
            return parked

        super().__init__(pack, lambda kept: kept.tensor())


class Copied:
    """A saved tensor of the CPU: a copy."""

    __slots__ = ("__weakref__", "kept")

    def __init__(self, array: Any) -> None:
        self.kept = make(array.copy(order="K"))

    def tensor(self) -> Any:
        """The copy. Errors: RuntimeError when a backward wrote it in place."""
        if self.kept._version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                "inplace operation: the copy that save_on_cpu keeps was written in the backward; "
                "clone() a saved tensor before writing it"
            )
        return self.kept


class Parked:
    """A saved tensor of a CUDA device, in pinned host memory. before: what was parked just before,
    which the backward will need next; known weakly, the graph owns it.
    """

    __slots__ = ("__weakref__", "array", "before", "copy", "device", "event")

    def __init__(self, array: Any, before: Parked | None) -> None:
        self.device = backend.device_of(array)
        # a snapshot, since the array may be written in place while the copy is under way
        self.copy = copy_to_host(array, snapshot=True)
        self.before = None if before is None else weakref.ref(before)
        self.array: Any = None
        self.event: Event | None = None

    def start(self) -> None:
        """Put it on its way back to the device."""
        if self.array is None:
            self.array, self.event = copy_from_host(self.copy, self.device)

    def tensor(self) -> Any:
        """The saved tensor on its device; the current stream waits for it, the host does not."""
        self.start()
        array, event = self.array, self.event
        self.array = self.event = None
        assert event is not None
        current_stream(self.device).wait_event(event)
        before = None if self.before is None else self.before()
        if before is not None:
            before.start()
        return make(array)
