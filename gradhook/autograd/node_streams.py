"""CUDA streams and devices in a backward run.

A node recorded on a stream that is not the default one keeps it and runs on it; every other node
runs on the default stream of its gradient's device, a module's barrier on the stream its gradient
comes from. Where a gradient goes on to another stream, that stream waits for an event. At the end
the caller's streams wait for all that were used. The host never waits.

A run that needs none of this (one device, default streams only) has no RunStreams.
Source of the rules: PyTorch's engine and "Stream semantics of backward passes",
https://docs.pytorch.org/docs/stable/notes/cuda.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradhook import backend
from gradhook.autograd.graph import Node
from gradhook.autograd.graph_task import Pending, Slots
from gradhook.backend import Process
from gradhook.streams import (
    DEFAULT_POINTERS,
    Event,
    Stream,
    current_stream,
    default_stream,
    hold,
)

if TYPE_CHECKING:
    from gradhook.autograd.graph_task import GraphTask


class Noted:
    """any: whether a node of this process has a stream of its own."""

    any = False


def note_stream(node: Node, array: Any) -> None:
    """A node with a CuPy output was recorded: keep the current stream if it is not the default.

    Errors: DeviceError in a child of a process that had initialised CUDA.
    """
    if Process.forked:
        backend.check_fork()
    stream = backend.cupy_stream()()
    if stream.ptr not in DEFAULT_POINTERS:
        node.hook_set().stream = Stream.over(stream, backend.device_of(array))
        Noted.any = True


def streams_of_run(task: GraphTask, roots: list[tuple[Node, int, Any]]) -> RunStreams | None:
    """What the run needs to keep several streams or devices in order; None when there is one."""
    if not Process.started:
        return None
    if Process.forked:
        backend.check_fork()
    if len(Process.devices) == 1:
        pointer = backend.cupy_stream()().ptr
        if pointer in DEFAULT_POINTERS and not (
            Noted.any
            and any(n.hooks is not None and n.hooks.stream is not None for n in task.pending)
        ):
            return None
    return RunStreams(task, roots)


class RunStreams:
    """outer: the caller's current stream of each device; arrivals: node -> (stream, event) of the
    gradients that come to it from elsewhere; used: streams that ran something; active: the current
    one, None before the first node on a device; conformed: the last node's gradients are not the
    objects its formula made.
    """

    def __init__(self, task: GraphTask, roots: list[tuple[Node, int, Any]]) -> None:
        self.task = task
        self.index = backend.current_index()
        self.outer = {i: current_stream(i) for i in sorted(Process.devices)}
        self.used: dict[Stream, None] = {}
        self.active: Stream | None = None
        self.arrivals: dict[Node, list[tuple[Stream, Event]]] = {}
        self.crossed = self.conformed = self.finished = False
        self.start: list[tuple[Stream, Event]] = [
            (s, s.record_event()) for s in self.outer.values()
        ]

    # ---- one node

    def enter(self, node: Node, g: Any) -> None:
        """Make the node's device and stream current, and let it wait for what comes to it."""
        arrivals = self.arrivals.pop(node, ())
        stream = self.stream_for(node, self._array(g), arrivals)
        self.crossed = False
        if stream is None:
            return
        self._switch(stream)
        for source, event in arrivals:
            if source != stream:
                stream.wait_event(event)
                self.crossed = True

    def stream_for(self, node: Node, array: Any, arrivals: Any = ()) -> Stream | None:
        """Where a node runs; None for one with a NumPy gradient, which needs no stream."""
        if node.hooks is not None and node.hooks.stream is not None:
            return node.hooks.stream  # type: ignore[no-any-return]
        if array is None or not backend.is_cupy(array):
            return None
        index = array.device.id
        if node.follows and arrivals and arrivals[0][0].device.index == index:
            return arrivals[0][0]  # type: ignore[no-any-return]
        return default_stream(index)

    def leave(self, node: Node, grads: Any, keep: Any) -> Any:
        """Conform the gradients here, and mark with events what goes on to another stream.

        keep: what the node used, held until its stream is done with it. Returns the gradients.
        """
        carrier, edges = self.task.carrier, node.edges
        events: dict[Stream, Event] = {}
        found = []
        self.conformed = False
        for k, h in enumerate(grads or ()):
            meta = edges[2 * k].meta(edges[2 * k + 1])
            found.append(None if h is None else carrier.conform(h, meta.shape, meta.dtype))
            self.conformed = self.conformed or found[k] is not h
        for k, h in enumerate(found):
            if h is None or not backend.is_cupy(carrier.array(h)):
                continue
            following, array = edges[2 * k], carrier.array(h)
            source = self._source(array)
            if following.follows or self.stream_for(following, array) != source:
                if source not in events:
                    events[source] = source.record_event()
                self.arrivals.setdefault(following, []).append((source, events[source]))
        stream = self.active
        if stream is not None and (self.crossed or not stream.is_default):
            hold(events.get(stream) or stream.record_event(), keep)
        return tuple(found) if grads else grads

    def _source(self, array: Any) -> Stream:
        """The stream that made an array just now."""
        index = array.device.id
        if self.active is not None and self.active.device.index == index:
            return self.active
        return current_stream(index)

    def _array(self, g: Any) -> Any:
        """The first array in a node's entry."""
        if type(g) in (Pending, Slots, list, tuple):
            return next((a for a in map(self._array, g) if a is not None), None)
        return None if g is None else self.task.carrier.array(g)

    def _switch(self, stream: Stream) -> None:
        if stream not in self.used:
            self.used[stream] = None
            for source, event in self.start:
                if source != stream:
                    stream.wait_event(event)
        if stream != self.active:
            stream.use()
            self.active = stream

    # ---- the end

    def finish(self) -> None:
        """The caller's streams wait for all that were used, and are the current ones again."""
        if not self.finished:
            self.finished = True
            self.join()

    def join(self) -> None:
        """As finish, for code that runs between two nodes and may look at what any of them made."""
        self.active = None
        for stream in self.used:
            event = None
            for outer in self.outer.values():
                if stream != outer:
                    event = event or stream.record_event()
                    outer.wait_event(event)
        for outer in self.outer.values():
            outer.use()
        backend.cupy().cuda.Device(self.index).use()
