"""allow_mutation_on_saved_tensors: what was saved is copied before an operation writes it in place.

It is the in-place operation that copies, so saved-tensor hooks inside keep the protection. Source
of names and errors: torch.autograd.graph.allow_mutation_on_saved_tensors; HOOKS.md B15, D20.
"""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any

from gradhook.autograd.binding import make_at
from gradhook.autograd.graph import Node, stale_error
from gradhook.autograd.watch import EMPTY, set_watch
from gradhook.modes import get_modes


class Handle:
    """Memory that was saved at one version, owned by what saved it.

    arrays: the saved arrays over it by the id they had when they were saved; copies of them once
    `copied`. aliases: Tensors over them that were given to pack hooks.
    """

    __slots__ = ("__weakref__", "aliases", "arrays", "cell", "copied", "owner", "version")

    def __init__(self, owner: Mutation, cell: Any, version: int) -> None:
        self.owner, self.cell, self.version = weakref.ref(owner), cell, version
        self.arrays: dict[int, Any] = {}
        self.aliases: list[tuple[int, weakref.ref[Any]]] = []
        self.copied = False

    def copy(self) -> None:
        """The memory is about to be written: keep copies instead, in the hands of hooks, too."""
        self.arrays = {key: a.copy(order="K") for key, a in self.arrays.items()}
        self.copied, self.cell = True, [self.version, None]
        for key, of in self.aliases:
            t = of()
            if t is not None:
                t._a, t._v = self.arrays[key], self.cell


class Keeper:
    """One saved tensor in a node's `saved`: gives its array back as it was when it was saved."""

    __slots__ = ("handle", "key")

    def __init__(self, handle: Handle, key: int) -> None:
        self.handle, self.key = handle, key

    def check(self) -> None:
        """Errors: AssertionError outside the context in which it was saved."""
        mutation = (get_modes().watch or EMPTY).mutation
        if mutation is None or mutation is not self.handle.owner():
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in "
                "which the graph was originally recorded."
            )

    def content(self) -> tuple[Any, Any, int]:
        """Array, cell and version."""
        return self.handle.arrays[self.key], self.handle.cell, self.handle.version

    def unpacked(self, node: Node, name: str) -> Any:
        """The saved tensor. Errors: AssertionError out of context; RuntimeError when the memory was
        written by something that copies nothing."""
        self.check()
        a, cell, version = self.content()
        if cell[0] != version:
            raise stale_error(node, name, a.shape, a.dtype, cell[0], version)
        t = make_at(a, None, 0)
        t._v = cell
        return t

    def alias(self, t: Any, own: int = -1) -> Any:
        """A Tensor for a pack hook that moves to the copy with what was saved; with t's history
        unless t is an output of the node that saves it."""
        a, cell, _ = self.content()
        made = make_at(a, None, 0) if own >= 0 else make_at(a, t._node, t._nr)
        made._v = cell
        self.handle.aliases.append((self.key, weakref.ref(made)))
        return made


class Mutation:
    """What one allow_mutation_on_saved_tensors context knows.

    cloned: Handle -> its copies, for the memory that was copied and is still saved.
    tid_to_weakhandle: the memory that is saved now. Names: PyTorch's
    `_AllowMutationOnSavedContext`.
    """

    def __init__(self) -> None:
        self.cloned: weakref.WeakKeyDictionary[Handle, dict[int, Any]] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[int, Handle] = (
            weakref.WeakValueDictionary()
        )

    def clear(self) -> None:
        """Forget all; a write to what was saved makes its backward raise again."""
        self.cloned.clear()
        self.tid_to_weakhandle.clear()

    def keep(self, a: Any, cell: Any, version: int) -> Keeper:
        """Protect a saved array with its cell and version."""
        handle = self.tid_to_weakhandle.get(id(cell))  # the handle owns the cell: the id is its
        if handle is None or handle.version != version or handle.copied:
            handle = self.tid_to_weakhandle[id(cell)] = Handle(self, cell, version)
        handle.arrays.setdefault(id(a), a)
        return Keeper(handle, id(a))

    def before_write(self, cell: Any) -> None:
        """The memory with this cell is about to be written."""
        handle = self.tid_to_weakhandle.pop(id(cell), None)
        if handle is not None and handle.version == cell[0]:
            handle.copy()
            self.cloned[handle] = handle.arrays


class allow_mutation_on_saved_tensors:
    """`with allow_mutation_on_saved_tensors() as ctx:` tensors that were saved for backward may be
    written in place: the first write copies them, and the backward, which must run inside, too,
    uses the values of the time they were saved.

    Operations of Tensors copy; what writes memory otherwise (optimizers, CuPy) copies nothing, and
    the backward raises as it does without this context.
    ctx: `cloned` (what was copied and is still saved), `tid_to_weakhandle` (what is saved), and
    `clear()`.
    Errors: RuntimeError when nested; AssertionError for a backward outside. Source:
    torch.autograd.graph.allow_mutation_on_saved_tensors.
    """

    def __init__(self) -> None:
        self._mutation: Mutation | None = None

    def __enter__(self) -> Mutation:
        if (get_modes().watch or EMPTY).mutation is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._mutation = Mutation()
        set_watch(mutation=self._mutation)
        return self._mutation

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        tb: TracebackType | None = None,
    ) -> None:
        set_watch(mutation=None)
        if self._mutation is not None:
            self._mutation.clear()
            self._mutation = None
