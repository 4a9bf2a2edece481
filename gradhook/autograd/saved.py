"""Saved tensors: what a node keeps of its inputs and outputs, and how it is checked and rebuilt.

A saved tensor is five entries of `node.saved`: (array, cell, version at save, node, output_nr). A
saved input keeps its edge at save time; a saved output has no edge (it is rebuilt with the node
that saved it), so there is no cycle. Where saved-tensor hooks or allow_mutation_on_saved_tensors
were on, the array's place is taken by an object that gives it back (`unpacked(node, name)`), and
the cell by PACKED, whose version never fits: so the one test of versions finds both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gradhook.autograd.binding import cell_of, make_at
from gradhook.autograd.graph import Node, TensorMeta, released_error, stale_error
from gradhook.autograd.watch import PACKED

Entry = tuple[Any, Any, int, Node | None, int]
NOTHING: Entry = (None, [0, None], 0, None, 0)  # a saved None


class Place(NamedTuple):
    """Where a tensor lies in `node.saved`. own: the output it is, -1 for an input; several: one
    entry, a tuple of the five of each."""

    name: str
    offset: int
    own: int
    several: bool


def stale(node: Node, name: str, array: Any, cell: Any, version: int) -> RuntimeError:
    return stale_error(node, name, array.shape, array.dtype, cell[0], version)


def unpack(
    node: Node, name: str, a: Any, cell: Any, version: int, edge: Node | None, nr: int, own: int
) -> Any:
    """The saved tensor as a Tensor with its history; `own`: the output it is of `node`, -1 for an
    input.
    """
    if a is None:
        return None
    if cell is PACKED:
        t = a.unpacked(node, name)
        if own < 0 and edge is None and t._node is None:
            return t
        a, cell = t._a, cell_of(t)
    elif cell[0] != version:
        raise stale(node, name, a, cell, version)
    t = make_at(a, edge, nr if edge is not None else 0) if own < 0 else make_at(a, node, own)
    t._v = cell
    return t


def restored(node: Node, name: str, a: Any, cell: Any, version: int) -> Any:
    """The array of an entry whose version does not fit: unpacked, or an error."""
    if cell is PACKED:
        return a.unpacked(node, name)._a
    raise stale(node, name, a, cell, version)


def save_one(t: Any, a: Any) -> Entry:
    """The five entries of one input tensor, whose array is `a`."""
    if t._v is None:
        t._v = [0, None]
    return (a, t._v, t._v[0], t._node, t._nr)


def save_optional(t: Any, a: Any) -> Entry:
    return NOTHING if t is None else save_one(t, a)


def save_all(tensors: tuple[Any, ...]) -> tuple[Entry, ...]:
    return tuple([save_one(t, t._a) for t in tensors])


def unpack_all(node: Node, name: str, entries: tuple[Entry, ...]) -> tuple[Any, ...]:
    return tuple(
        [
            a if cell[0] == version else restored(node, f"{name}[{k}]", a, cell, version)
            for k, (a, cell, version, _, _) in enumerate(entries)
        ]
    )


def unpack_all_recorded(node: Node, name: str, entries: tuple[Entry, ...]) -> tuple[Any, ...]:
    return tuple([unpack(node, f"{name}[{k}]", *e, -1) for k, e in enumerate(entries)])


def zeros(xp: Any, meta: TensorMeta, recorded: bool) -> Any:
    """The gradient of an output that got none."""
    from gradhook.autograd.binding import make
    from gradhook.autograd.carriers import ARRAYS

    return make(ARRAYS.zeros(meta)) if recorded else ARRAYS.zeros(meta)


def saved_attribute(node: Any, name: str) -> Any:
    """`node._saved_<name>`: a saved tensor, shape or attribute by the name its formula uses
    (PyTorch: `_saved_self`). The leaf itself where a leaf was saved.
    """
    if node.saved is None:
        raise released_error()
    place = place_of(node, name)
    if place is None:
        return node.saved[offset_of(node, name)]
    if place.several:
        entries: tuple[Entry, ...] = node.saved[place.offset]
        return tuple(same_leaf(unpack(node, name, *e, -1), e[3]) for e in entries)
    entry: Entry = node.saved[place.offset : place.offset + 5]
    return same_leaf(unpack(node, name, *entry, place.own), entry[3])


def place_of(node: Any, name: str) -> Place | None:
    """Where the saved tensor of that name lies; None for a shape or an attribute."""
    return next((p for p in node.saved_places if p.name == name), None)


def offset_of(node: Any, name: str) -> int:
    """Where a saved value lies in `node.saved`."""
    offset = 0
    for n in node.saved_names:
        if n == name:
            return offset
        place = place_of(node, n)
        offset += 1 if place is None or place.several else 5
    raise AttributeError(name)


def same_leaf(t: Any, edge: Any) -> Any:
    """The leaf itself, where `t` stands for one that lives and still has that memory."""
    if edge is None or not edge.leaf or t is None:
        return t
    leaf = edge.variable
    return leaf if leaf is not None and leaf._a is t._a and leaf._node is edge else t
