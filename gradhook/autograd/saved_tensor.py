"""SavedTensor: one tensor that a node saved, as an object that takes a pair of hooks."""

from __future__ import annotations

from typing import Any

from gradhook.autograd import saved
from gradhook.autograd.graph import Node, released_error
from gradhook.autograd.saved_hooks import HookPair, Packed, check_pair
from gradhook.autograd.watch import PACKED, Watch
from gradhook.modes import get_modes, set_modes


class SavedTensor:
    """A tensor saved by a node: `node._raw_saved_<name>`, `node._raw_saved_tensors`.

    It refers to the node, so it lives as long as the node's saved tensors do; made by gradhook
    only. Source: torch.autograd.SavedTensor.
    """

    __slots__ = ("_index", "_node", "_offset", "_own")

    _node: Node
    _offset: int
    _index: int | None
    _own: int

    def __init__(self) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden. It is what "
            "node._raw_saved_<name> gives."
        )

    def register_hooks(self, pack_hook: Any = None, unpack_hook: Any = None) -> None:
        """Pack the tensor at once; unpack_hook gives it back when the backward needs it.

        Errors: TypeError for what is not callable; RuntimeError once freed, for a saved None, when
        there are hooks already, and when pack_hook writes the tensor in place.
        """
        check_pair("register_hooks", pack_hook, unpack_hook)
        a, cell, version, edge, nr = self._entry()
        if cell is PACKED and isinstance(a, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        keeper = None
        if cell is PACKED:
            keeper = a
            a, cell, version = keeper.content()
        if a is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        node, own = self._node, self._own
        t = saved.same_leaf(saved.unpack(node, "", a, cell, version, edge, nr, own), edge)
        if keeper is not None:
            t = keeper.alias(t, own)
        modes = get_modes()
        set_modes(Watch().inside)
        try:
            pair = HookPair(pack_hook, unpack_hook, None, compose=False, shares=True)
            packed = pair.packed(t, a, cell, version, own, keeper)
        finally:
            set_modes(modes)
        self._replace((packed, PACKED, -1, edge, nr))

    def _entry(self) -> Any:
        content = self._node.saved
        if content is None:
            text = "Calling register_hooks on a saved tensor after it has been freed. "
            raise RuntimeError(text + str(released_error()).partition(". ")[2])
        if self._index is not None:
            return content[self._offset][self._index]
        return content[self._offset : self._offset + 5]

    def _replace(self, entry: Any) -> None:
        content = list(self._node.saved)
        if self._index is not None:
            entries = list(content[self._offset])
            entries[self._index] = entry
            content[self._offset] = tuple(entries)
        else:
            content[self._offset : self._offset + 5] = entry
        self._node.saved = tuple(content)


def saved_tensor(node: Any, offset: int, index: int | None, own: int) -> SavedTensor:
    """The SavedTensor at a place of `node.saved`; index: in the tuple of entries there."""
    made = object.__new__(SavedTensor)
    made._node, made._offset, made._index, made._own = node, offset, index, own
    return made


def raw_saved(node: Any, name: str) -> Any:
    """`node._raw_saved_<name>`: the SavedTensor, a tuple of them for a variadic input.

    Errors: RuntimeError once freed.
    """
    place = saved.place_of(node, name)
    assert place is not None
    if node.saved is None:
        raise released_error()
    if not place.several:
        return saved_tensor(node, place.offset, None, place.own)
    entries = node.saved[place.offset]
    return tuple(saved_tensor(node, place.offset, k, -1) for k in range(len(entries)))
