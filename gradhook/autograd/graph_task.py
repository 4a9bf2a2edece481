"""GraphTask: everything one backward run changes, and the run that code is called from."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

from gradhook.autograd.graph import Node
from gradhook.modes import get_modes

if TYPE_CHECKING:
    from gradhook.autograd.carriers import Carrier
    from gradhook.autograd.completion import Completion
    from gradhook.autograd.guard import Guard
    from gradhook.autograd.node_streams import RunStreams

_task_ids = count()
_current: ContextVar[GraphTask | None] = ContextVar("gradhook_graph_task", default=None)


class Pending(list[Any]):
    """Gradients of one slot that wait to be summed by one kernel."""


class Slots(list[Any]):
    """One slot an output of a node with several."""


class Capture:
    """A gradient asked for by `inputs=`: (node, output_nr); accumulate: into the tensor's .grad
    (backward).
    """

    __slots__ = ("nr", "tensor", "value")

    def __init__(self, nr: int, tensor: Any = None) -> None:
        self.nr = nr
        self.tensor = tensor
        self.value: Any = None


class Delivery:
    """A call that waits for values to arrive in host memory; made at the end of the run at the
    latest.
    """

    def done(self) -> bool:
        """Whether they have arrived."""
        raise NotImplementedError(type(self).__name__)

    def wait(self) -> None:
        """Wait for them."""
        raise NotImplementedError(type(self).__name__)

    def deliver(self) -> None:
        """Make the call."""
        raise NotImplementedError(type(self).__name__)


class GraphTask:
    """The state of one backward run.

    pending: node -> gradients still to arrive (a node leaves it when it has run); entries: node ->
    what arrived; owned: leaves whose entry may be adopted as .grad; keep: retain_graph; execute:
    nodes that may run, None for all; captures: node -> Captures; local: hook state of module
    calls, by call; callbacks: run at the end; deliveries: calls of host hooks still to make;
    late: the node whose first hook was registered while it ran; roots: the nodes it started from;
    streams: where CUDA streams or several devices are involved; completion: where hooks wait for
    several nodes; compat: PyTorch's quirks are asked for.
    """

    __slots__ = (
        "bare", "callbacks", "captures", "carrier", "compat", "completion", "deliveries",
        "entries", "execute",
        "guard", "id", "keep", "late", "local", "node", "outer", "owned", "pending", "plain",
        "roots", "shared", "streams",
    )  # fmt: skip

    def __init__(self, carrier: Carrier, keep: bool) -> None:
        self.id = next(_task_ids)
        self.carrier = carrier
        self.keep = keep
        self.compat = get_modes().compat
        self.roots: tuple[Node, ...] = ()
        self.pending: dict[Node, int] = {}
        self.entries: dict[Node, Any] = {}
        self.owned: set[Node] = set()
        self.execute: set[Node] | None = None
        self.captures: dict[Node, list[Capture]] = {}
        self.local: dict[Any, Any] = {}
        self.callbacks: list[Callable[[], Any]] = []
        self.deliveries: list[Delivery] = []
        self.streams: RunStreams | None = None
        self.guard: Guard | None = None
        self.completion: Completion | None = None
        self.node: Node | None = None
        self.late: Node | None = None
        self.outer: GraphTask | None = None
        self.bare = not carrier.recording  # gradients are bare arrays
        self.plain = True  # every node runs and nothing is captured
        self.shared = False  # other runs were active, too: what is saved may be theirs as well

    def still_needs(self, node: Node) -> bool:
        """Whether this run has yet to execute the node."""
        return node in self.pending


# The run this code is called from; None outside a backward run.
current_task: Callable[[], GraphTask | None] = _current.get


def running_carrier() -> Carrier:
    """The carrier of the current run."""
    task = _current.get()
    if task is None:
        raise RuntimeError("a node's backward runs within a backward run only")
    return task.carrier


def queue_callback(callback: Callable[[], Any]) -> None:
    """Run `callback()` at the end of the current backward run, first queued first.

    Errors: RuntimeError outside a run. Source: `Variable._execution_engine.queue_callback`.
    """
    task = _current.get()
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    task.callbacks.append(callback)


def deliver_all(waiting: list[Delivery]) -> None:
    """Wait once, for the last one; copies of a device arrive in order. Then make the calls."""
    waiting[-1].wait()
    for delivery in waiting:
        delivery.deliver()
