"""What happens to a node beside being recorded: saved-tensor hooks, copies on write, and hooks
that see each new node.

All of it is in `Modes.watch`, None for most programs: recorders ask for it only once something of
it was used in the process, and then with one attribute test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gradhook.autograd.graph import Node
from gradhook.modes import Modes, get_modes, set_modes

if TYPE_CHECKING:
    from gradhook.autograd.mutation import Mutation
    from gradhook.autograd.saved_hooks import HookPair

NodeHook = Callable[[Node], object]


@dataclass(frozen=True, slots=True)
class Watch:
    """hooks: the innermost saved_tensors_hooks in force; mutation: the context that allows writes
    to saved tensors; created: hooks that see each recorded node, outermost first.

    inside: the modes in which pack hooks run: nothing recorded, no saved-tensor hooks.
    """

    hooks: HookPair | None = None
    mutation: Mutation | None = None
    created: tuple[NodeHook, ...] = ()
    inside: Modes = field(init=False, compare=False)

    def __post_init__(self) -> None:
        suspended = None if self.hooks is None else changed(self, hooks=None)
        object.__setattr__(self, "inside", Modes(False, False, suspended))


EMPTY = Watch()


def changed(watch: Watch | None, **fields: Any) -> Watch | None:
    """A Watch with some fields changed, None when nothing is left to watch."""
    found = replace(watch or EMPTY, **fields)
    return None if found == EMPTY else found


class Watching:
    """started: whether something watched nodes in this process; on_start: called when it first
    does."""

    started = False
    on_start: list[Callable[[], None]] = []  # noqa: RUF012 - of the process


def set_watch(**fields: Any) -> None:
    """Change what is watched here and now."""
    if not Watching.started:
        Watching.started = True
        for callback in Watching.on_start:
            callback()
    modes = get_modes()
    watch = changed(modes.watch, **fields)
    set_modes(Modes(modes.grad, modes.inference, watch, modes.saved_hooks_refused, modes.compat))


def watched(watch: Watch, node: Any, tensors: tuple[Any, ...]) -> None:
    """A node was recorded; tensors: those it saved, in the order of its `saved_places`."""
    if tensors and (watch.hooks is not None or watch.mutation is not None):
        saved, places = node.saved, node.saved_places
        modes = get_modes()
        set_modes(watch.inside)
        try:
            if len(places) == 1 and len(saved) == 5:
                node.saved = kept(watch, tensors[0], saved, places[0][2])
            else:
                found = list(saved)
                for (_, k, own, several), t in zip(places, tensors):  # noqa: B905 - as many
                    if several:
                        pairs = zip(t, saved[k], strict=True)
                        found[k] = tuple([kept(watch, x, entry, -1) for x, entry in pairs])
                    else:
                        found[k : k + 5] = kept(watch, t, saved[k : k + 5], own)
                node.saved = tuple(found)
        finally:
            set_modes(modes)
    for hook in watch.created:
        hook(node)


def kept(watch: Watch, t: Any, entry: Any, own: int) -> Any:
    """The five entries of a saved tensor, which is `t`, after what watches saw it; a Python number
    stays as it is. own: the output it is, -1 for an input.
    """
    a, cell, version, edge, nr = entry
    if a is None or nr < 0:
        return entry
    found, keeper = watch.hooks, None
    if watch.mutation is not None:
        keeper = watch.mutation.keep(a, cell, version)
        if found is None:
            return (keeper, PACKED, -1, edge, nr)
        t = keeper.alias(t, own)
    hooks: Any = found
    return (hooks.packed(t, a, cell, version, own, keeper), PACKED, -1, edge, nr)


PACKED: Any = [None]  # the cell of an entry whose first element is not an array but knows one


class node_creation_hook:
    """`with node_creation_hook(fn):` calls `fn(node)` for each node of an operation or a Function
    that is recorded inside, in this context, once it is fully built. Outer hooks first. Source of
    the name: torch.autograd.graph (2.14).

    Errors: TypeError for what is not callable.
    """

    def __init__(self, fn: NodeHook) -> None:
        if not callable(fn):
            raise TypeError(f"node_creation_hook expects a function, found {type(fn).__name__}")
        self.fn = fn

    def __enter__(self) -> Self:
        watch = get_modes().watch or EMPTY
        set_watch(created=(*watch.created, self.fn))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        tb: TracebackType | None = None,
    ) -> None:
        created = list((get_modes().watch or EMPTY).created)
        for k in reversed(range(len(created))):
            if created[k] is self.fn:
                del created[k]
                break
        set_watch(created=tuple(created))
