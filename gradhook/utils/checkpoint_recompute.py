"""What one checkpointed call knows: its place holders, and how a backward run fills them.

Place holders are counted in the order in which the forward saved. The frame knows them weakly: the
graph owns them, and one that died needs no value. The rules for nested calls and early stop are
those of torch.utils.checkpoint's notes on non-reentrant checkpointing.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from gradhook.autograd.graph_task import GraphTask
from gradhook.autograd.saved_hooks import saved_tensors_hooks
from gradhook.autograd.watch import node_creation_hook

Meta = tuple[Any, Any, Any]


class CheckpointError(RuntimeError):
    """A recomputation saved other tensors than the forward did."""


class StopRecomputation(BaseException):
    """All values are there. No Exception, so that user code does not catch it."""


class Holder:
    """Stands for one saved tensor. number: in the order of saving."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        self.number = number


class Run:
    """One recomputation. values: what is not yet unpacked; count: tensors saved so far; frame:
    whose; extra: a backward inside the function saved tensors the forward did not."""

    __slots__ = ("count", "done", "extra", "frame", "metas", "values")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.values: weakref.WeakKeyDictionary[Holder, tuple[Any, int]] = (
            weakref.WeakKeyDictionary()
        )
        self.metas: dict[int, Meta] = {}
        self.count = 0
        self.done = self.extra = False

    def saved(self, x: Any) -> Any:
        """The recomputation saves x; what it needs itself is x, as it is."""
        frame, number = self.frame, self.count
        self.count += 1
        t = x.detach()
        if number >= len(frame.holders):
            if frame.early_stop:
                return t
            if not frame.complete:
                self.extra = True
                return t
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than "
                f"during the original forward pass, which saved {len(frame.holders)}. The function "
                "must do the same both times." + frame.operations()
            )
        holder = frame.holders[number]()
        if holder is not None:
            self.values[holder] = (t, t._version)
            self.metas[number] = meta(t)
        if frame.early_stop and self.count == len(frame.holders):
            raise StopRecomputation
        return t


class Frame:
    """One checkpointed call. again(hooks): computes it again; early_stop: until the last saved
    tensor is there; compares: shapes, dtypes and devices are checked; complete: its forward is
    over; log: the operations of both calls, with debug.
    """

    def __init__(
        self,
        again: Callable[[saved_tensors_hooks], None],
        early_stop: bool,
        compares: bool,
        log: Recorded | None,
    ) -> None:
        self.again, self.early_stop, self.compares, self.log = again, early_stop, compares, log
        self.holders: list[weakref.ref[Holder]] = []
        self.metas: list[Meta] = []
        self.complete = False

    def placed(self, x: Any) -> Holder:
        """The forward saves x."""
        holder = Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.metas.append(meta(x))
        return holder

    def value(self, holder: Holder, task: GraphTask | None) -> Any:
        """The saved tensor that a place holder stands for, computed again once a backward run.

        Errors: CheckpointError when the recomputation differs from the forward; RuntimeError for a
        value that was written in place since, or taken twice in one run.
        """
        run = Run(self) if task is None else task.local.get(self)
        if run is None:
            assert task is not None
            run = task.local[self] = Run(self)
        if not run.done:
            self.recompute(run)
        found = run.values.pop(holder, None)
        if found is None:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                "unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do "
                "so only once."
            )
        t, version = found
        if t._version != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: tensor {holder.number} saved in the checkpointed function is "
                f"at version {t._version}; expected version {version} instead. Hint: clone() it "
                "before the in-place operation."
            )
        return t

    def recompute(self, run: Run) -> None:
        """Fill the place holders."""
        try:
            self.again(saved_tensors_hooks(run.saved, lambda t: t))
        except StopRecomputation:
            pass
        run.done = True
        if not self.compares:
            return
        if run.count != len(self.holders) and not run.extra:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                f"original forward and recomputation: {len(self.holders)} and {run.count}. The "
                "function must do the same both times." + self.operations()
            )
        different = [
            f"tensor {k}: saved {_words(self.metas[k])}, recomputed {_words(found)}"
            for k, found in run.metas.items()
            if found != self.metas[k]
        ]
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass.\n"
                + "\n".join(different)
                + self.operations()
            )

    def operations(self) -> str:
        """What debug=True adds to an error."""
        if self.log is None:
            return " Pass debug=True to checkpoint to see the operations of both."
        first, again = (", ".join(names) for names in self.log.names)
        return (
            "\nYou are seeing this error because you passed `debug=True` to checkpoint. Operations "
            f"recorded in the forward: {first}\nin the recomputation, as far as it went: {again}"
        )


class Recorded:
    """The two contexts of a checkpoint, which note the operations recorded inside them."""

    def __init__(self, context_fn: Callable[[], Any]) -> None:
        self.context_fn = context_fn
        self.names: tuple[list[str], list[str]] = ([], [])

    def __call__(self) -> Any:
        pairs = zip(self.names, self.context_fn(), strict=True)
        return tuple(_Noting(names, context) for names, context in pairs)


class _Noting:
    """A context in which the names of recorded nodes are noted, from the start each time."""

    def __init__(self, names: list[str], context: contextlib.AbstractContextManager[Any]) -> None:
        self.names, self.context = names, context
        self.hook = node_creation_hook(lambda node: names.append(node.name()))

    def __enter__(self) -> None:
        self.context.__enter__()
        self.names.clear()
        self.hook.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        self.hook.__exit__()
        return self.context.__exit__(kind, error, tb)


def meta(t: Any) -> Meta:
    """What must be the same both times."""
    return (tuple(t.shape), t.dtype, t.device)


def _words(found: Meta) -> str:
    shape, dtype, device = found
    return f"shape {shape} {dtype!r} on {device}"
