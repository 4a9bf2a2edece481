"""detect_anomaly: which node of a backward run first made a gradient that is not finite."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gradhook import backend

if TYPE_CHECKING:
    from gradhook.autograd.graph import Node
    from gradhook.autograd.graph_task import GraphTask

_active: ContextVar[detect_anomaly | None] = ContextVar("gradhook_guard", default=None)
active_guard = _active.get


class detect_anomaly:
    """`with detect_anomaly():` every backward run inside raises a RuntimeError that names the node
    that first returned NaN or infinity.

    sync: "end" keeps a flag a gradient on the device and reads them once, when the run is over
    (gradients accumulated by then stay); "node" reads after each node and stops there, as PyTorch.
    Source of the name: torch.autograd.detect_anomaly.
    """

    def __init__(self, check_nan: bool = True, *, sync: str = "end") -> None:
        if sync not in ("end", "node"):
            raise ValueError(f"sync: found {sync!r}, expected 'end' or 'node'")
        self.check_nan = check_nan
        self.sync = sync
        self._outer: list[detect_anomaly | None] = []

    def __enter__(self) -> Self:
        self._outer.append(_active.get())
        _active.set(self if self.check_nan else None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        _active.set(self._outer.pop())


class Guard:
    """The flags of one run: a 0-d bool array a gradient, on its device."""

    def __init__(self, sync: str) -> None:
        self.sync = sync
        self.names: list[tuple[str, int]] = []
        self.flags: list[Any] = []

    def check(self, task: GraphTask, node: Node, grads: Any) -> None:
        """Note whether each gradient of a node is finite."""
        for k, h in enumerate(grads or ()):
            if h is None:
                continue
            array = task.carrier.array(h)
            if array.dtype.kind in "fc":
                xp = backend.array_module(array)
                self.flags.append(xp.isfinite(array).all())
                self.names.append((node.name(), k))
        if self.sync == "node":
            self.finish()

    def finish(self) -> None:
        """Read the flags, once a device. Errors: RuntimeError for the first that is not finite."""
        bad = []
        for device in {backend.device_of(f) for f in self.flags}:
            places = [k for k, f in enumerate(self.flags) if backend.device_of(f) == device]
            xp = backend.array_module(self.flags[places[0]])
            with backend.place(self.flags[places[0]]):
                finite = backend.to_host(xp.stack([self.flags[k] for k in places]))
            bad += [k for k, fine in zip(places, finite, strict=True) if not fine]
        names, self.flags, self.names = self.names, [], []
        if bad:
            name, output = names[min(bad)]
            raise RuntimeError(
                f"Function '{name}' returned nan or infinite values in its {output}th output; it "
                "is the first such node of this backward run"
            )
