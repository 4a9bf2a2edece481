"""Saved tensors: what a node keeps of its inputs and outputs, and how it is checked and rebuilt.

A saved tensor is five entries of `node.saved`: (array, cell, version at save, node, output_nr). A
saved input keeps its edge at save time; a saved output has no edge (it is rebuilt with the node
that saved it), so there is no cycle.
"""

from __future__ import annotations

from typing import Any

from gradhook.autograd.binding import make_at
from gradhook.autograd.graph import Node, TensorMeta, released_error, stale_error

_NO_CELL = [0, None]
Entry = tuple[Any, Any, int, Node | None, int]


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
    if cell[0] != version:
        raise stale(node, name, a, cell, version)
    t = make_at(a, edge, nr) if own < 0 else make_at(a, node, own)
    t._v = cell
    return t


def save_one(t: Any, a: Any) -> Entry:
    """The five entries of one input tensor, whose array is `a`."""
    if t._v is None:
        t._v = [0, None]
    return (a, t._v, t._v[0], t._node, t._nr)


def save_optional(t: Any, a: Any) -> Entry:
    return (None, _NO_CELL, 0, None, 0) if t is None else save_one(t, a)


def save_all(tensors: tuple[Any, ...]) -> tuple[Entry, ...]:
    return tuple([save_one(t, t._a) for t in tensors])


def unpack_all(node: Node, name: str, entries: tuple[Entry, ...]) -> tuple[Any, ...]:
    for k, (a, cell, version, _, _) in enumerate(entries):
        if cell[0] != version:
            raise stale(node, f"{name}[{k}]", a, cell, version)
    return tuple([e[0] for e in entries])


def unpack_all_recorded(node: Node, name: str, entries: tuple[Entry, ...]) -> tuple[Any, ...]:
    return tuple([unpack(node, f"{name}[{k}]", *e, -1) for k, e in enumerate(entries)])


def zeros(xp: Any, meta: TensorMeta, recorded: bool) -> Any:
    """The gradient of an output that got none."""
    from gradhook.autograd.binding import make
    from gradhook.autograd.carriers import ARRAYS

    return make(ARRAYS.zeros(meta)) if recorded else ARRAYS.zeros(meta)


def saved_attribute(node: Any, name: str) -> Any:
    """`node._saved_<name>`: a saved tensor, shape or attribute by the name its formula uses
    (PyTorch: `_saved_self`).
    """
    names: tuple[str, ...] = node.saved_names
    if name not in names:
        raise AttributeError(f"{node.name()} saved {list(names) or 'nothing'}, not {name!r}")
    if node.saved is None:
        raise released_error()
    values = list(node.saved)
    for n in names:
        width = 5 if node.is_saved_tensor(n) else 1
        entry, values = values[:width], values[width:]
        if n == name:
            own = -1 if n in node.row.inputs else int(n[3:] or 0)
            if width == 1:
                return entry[0]
            array, cell, version, edge, nr = entry
            return unpack(node, n, array, cell, version, edge, nr, own)
    raise AssertionError(name)
