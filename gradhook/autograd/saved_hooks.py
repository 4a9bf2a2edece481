"""saved_tensors_hooks: what a user does with tensors between their saving and their use.

Source: torch.autograd.graph.saved_tensors_hooks, disable_saved_tensors_hooks; HOOKS.md B15. Beyond
it: the version check stays on, what unpack returns must fit, operations inside hooks save without
hooks, and pairs can be composed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from gradhook import backend, dtypes
from gradhook.autograd.binding import Binding, make
from gradhook.autograd.graph import Node, new, stale_error
from gradhook.autograd.graph_task import current_task
from gradhook.autograd.watch import EMPTY, changed, set_watch
from gradhook.modes import Modes, get_modes, set_modes

PackHook = Callable[[Any], Any]


class HookPair:
    """A pair in force. further: the pairs that apply after it, going outwards; outer: the pair that
    was in force before; shares: unpack may return memory of the tensor that was packed, so its
    version is watched.
    """

    __slots__ = ("further", "outer", "pack", "shares", "unpack")

    def __init__(
        self, pack: PackHook, unpack: PackHook, outer: HookPair | None, compose: bool, shares: bool
    ) -> None:
        self.pack, self.unpack, self.outer, self.shares = pack, unpack, outer, shares
        self.further: tuple[HookPair, ...] = ()
        if compose and outer is not None:
            self.further = (outer, *outer.further)

    def packed(
        self, t: Any, a: Any, cell: Any, version: int, own: int, keeper: Any = None
    ) -> Packed:
        """What stands for the tensor t (its array, cell and version at save) from now on. own: the
        output it is, -1 for an input. keeper: the copy on write that protects it.

        An output is handed to pack without history, or what pack keeps of it would keep the node.
        """
        if own >= 0 and t._node is not None:
            t = make(a)
            t._v = cell
        value = self.pack(t)
        if cell[0] != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook cannot be modified by in-place operations as this can lead to "
                "unexpected side-effects. clone() the tensor in the pack hook."
            )
        for pair in self.further:
            if not isinstance(value, Binding.tensor):
                raise TypeError(
                    f"pack_hook of saved_tensors_hooks(compose=True) returned "
                    f"{type(value).__name__}, expected a Tensor: the outer pair packs it further"
                )
            value = pair.pack(value)
        made: Packed = new(Packed)
        made.hooks, made.value, made.version, made.keeper = self, value, version, keeper
        made.cell = cell if self.shares else None
        made.shape, made.dtype, made.array_type = a.shape, a.dtype, type(a)
        return made


class Packed:
    """What pack returned for one saved tensor, and what unpack must give back.

    cell: of the tensor that was packed, to see whether it was written since, None when that does
    not matter; keeper: the copy on write that protects it.
    """

    __slots__ = ("array_type", "cell", "dtype", "hooks", "keeper", "shape", "value", "version")

    hooks: HookPair
    value: Any
    version: int
    cell: Any
    keeper: Any
    shape: tuple[int, ...]
    dtype: Any
    array_type: type

    def unpacked(self, node: Node, name: str) -> Any:
        """What unpack returns, a Tensor that fits.

        Errors: TypeError for what is no Tensor; RuntimeError for another shape, dtype or device,
        and when it is memory that was written in place since it was saved.
        """
        if self.keeper is not None:
            self.keeper.check()
        value = self._called(node)
        if not isinstance(value, Binding.tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(value).__name__} ({name!r} of {node.name()})"
            )
        a = value._a
        same = a.dtype is self.dtype or a.dtype == self.dtype
        if not same or a.shape != self.shape or type(a) is not self.array_type:
            raise RuntimeError(
                "Output of saved tensor unpack_hook does not fit the saved tensor "
                f"{name!r} of {node.name()}: expected shape {tuple(self.shape)} "
                f"{dtypes.of(self.dtype)!r} on {_where(self.array_type)}, got shape "
                f"{tuple(a.shape)} {dtypes.of(a.dtype)!r} on {_where(type(a))}"
            )
        cell = self.cell
        if cell is not None and value._v is cell and cell[0] != self.version:
            raise stale_error(node, name, self.shape, self.dtype, cell[0], self.version)
        return value

    def _called(self, node: Node) -> Any:
        """Unpack, outer pair first; saved-tensor hooks are suspended, the grad mode is the run's.

        The modes are put back, whatever the hook entered or left.
        """
        task, modes, pair = current_task(), get_modes(), self.hooks
        if task is not None:
            before, bare, task.node = task.node, node.hooks is None, node
        watch = modes.watch
        if watch is not None and watch.hooks is not None:
            refused = modes.saved_hooks_refused
            set_modes(
                Modes(
                    modes.grad, modes.inference, changed(watch, hooks=None), refused, modes.compat
                )
            )
        try:
            value = self.value
            if pair.further:
                for further in reversed(pair.further):
                    value = further.unpack(value)
            return pair.unpack(value)
        finally:
            if get_modes() is not modes:
                set_modes(modes)
            if task is not None:
                task.node = before
                if bare and node.hooks is not None and node.hooks.post:
                    task.late = node


def _where(array_type: type) -> str:
    return "cuda" if issubclass(array_type, backend.cupy_types()) else "cpu"


class saved_tensors_hooks:
    """`with saved_tensors_hooks(pack_hook, unpack_hook):` each tensor that an operation saves for
    backward inside is replaced by `pack_hook(tensor)`, any object; `unpack_hook(object)` gives the
    tensor back, of the same shape, dtype and device, whenever the backward needs it.

    pack_hook gets the saved input itself, an output without its history; it must not write it in
    place. The innermost pair applies, alone; with compose=True its pack_hook comes first and the
    pair outside packs the tensor it returns. Both hooks run with saved-tensor hooks suspended,
    pack_hook without recording, unpack_hook in the mode of the backward run (recording under
    create_graph).
    Errors: TypeError for what is not callable. RuntimeError inside disable_saved_tensors_hooks; at
    the backward when unpack_hook returns a tensor that does not fit, or memory that was written
    in place since it was saved. Source: torch.autograd.graph.saved_tensors_hooks.
    """

    shares = True

    def __init__(
        self, pack_hook: PackHook, unpack_hook: PackHook, *, compose: bool = False
    ) -> None:
        check_pair("saved_tensors_hooks", pack_hook, unpack_hook)
        self.pack_hook, self.unpack_hook, self.compose = pack_hook, unpack_hook, compose

    def __enter__(self) -> Self:
        modes = get_modes()
        if modes.saved_hooks_refused is not None:
            raise RuntimeError(modes.saved_hooks_refused)
        outer = (modes.watch or EMPTY).hooks
        pair = HookPair(self.pack_hook, self.unpack_hook, outer, self.compose, self.shares)
        set_watch(hooks=pair)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        tb: TracebackType | None = None,
    ) -> None:
        inner = (get_modes().watch or EMPTY).hooks
        if inner is not None:  # left more often than entered: nothing to do, as in PyTorch
            set_watch(hooks=inner.outer)


def check_pair(who: str, pack_hook: Any, unpack_hook: Any) -> None:
    """Errors: TypeError unless both can be called."""
    for what, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
        if not callable(hook):
            raise TypeError(
                f"{who}(): incompatible function arguments: {what} is {hook!r} of type "
                f"{type(hook).__name__}, expected a function"
            )


class disable_saved_tensors_hooks:
    """`with disable_saved_tensors_hooks(error_message):` entering saved_tensors_hooks inside raises
    a RuntimeError with that message.

    Errors: RuntimeError with the message when saved-tensor hooks are in force already. Source:
    torch.autograd.graph.disable_saved_tensors_hooks.
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        self._outer: list[str | None] = []

    def __enter__(self) -> Self:
        modes = get_modes()
        if modes.watch is not None and modes.watch.hooks is not None:
            raise RuntimeError(self.error_message)
        self._outer.append(modes.saved_hooks_refused)
        set_modes(Modes(modes.grad, modes.inference, modes.watch, self.error_message, modes.compat))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        tb: TracebackType | None = None,
    ) -> None:
        modes = get_modes()
        set_modes(Modes(modes.grad, modes.inference, modes.watch, self._outer.pop(), modes.compat))


def saved_tensors_hooks_enabled() -> bool:
    """Whether saved_tensors_hooks may be entered here and now."""
    return get_modes().saved_hooks_refused is None
