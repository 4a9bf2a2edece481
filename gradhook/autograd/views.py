"""Views: how a tensor is derived from its base, refreshed after the base was written, and written
through.

A view shares its base's memory and version cell. It remembers the base, the view ops that led to
it and the base's node at that time; when the base has another node since, `refresh` replays the
ops on the base.
An in-place op on a view makes the base's history a `CopySlices`: the op on the slice, everything
else unchanged.
"""

from __future__ import annotations

from typing import Any

from gradhook import backend, memory
from gradhook.autograd import record
from gradhook.autograd.binding import Binding, cell_of, make, make_at
from gradhook.autograd.carriers import ARRAY_MODULES, ARRAYS
from gradhook.autograd.compiled import blank
from gradhook.autograd.graph import Node, hook_table, released_error
from gradhook.autograd.node_streams import note_stream
from gradhook.autograd.numbering import numbering
from gradhook.backend import Process
from gradhook.hooks.registry import HookTable
from gradhook.modes import Modes, get_modes, set_modes, with_grad
from gradhook.ops.table import TABLE, Op

Steps = tuple[Any, ...]  # op, attributes, output index (None: its only one), op, attributes, ...

DEFAULT, UNRECORDED, MULTI_OUTPUT, CUSTOM = "default", "no_grad", "multi_output", "custom"
HOOKED = "hooked"  # by a module's barrier, under compat("torch")
FOLLOWS = "follow_inplace"  # the flag of a tensor hook that moves to the new version
HOOK_NODE = "BackwardHookFunctionBackward"  # PyTorch's name of that barrier


class View:
    """base: the tensor that is no view itself; steps: the view ops from it, flat, none
    for an alias that stands for the base at a barrier; base_node: the base's node this view's edge
    was made from; creation: DEFAULT, or why it must not be written while recording; version: of
    the memory when a Function returned the view (CUSTOM), which then can't follow its base."""

    __slots__ = ("base", "base_node", "creation", "steps", "version")

    base: Any
    base_node: Node | None
    creation: str
    steps: Steps
    version: int

    @classmethod
    def of(cls, base: Any, steps: Steps, creation: str) -> View:
        """A view of base as it is now; view ops fill in the attributes of `View()` themselves."""
        view = cls()
        view.base, view.base_node, view.steps, view.creation = base, base._node, steps, creation
        return view

    def freeze(self, t: Any, creation: str = CUSTOM) -> None:
        """t, this view, has a history that its base does not give: a Function returned it."""
        self.creation, self.base_node, self.version = creation, self.base._node, t._version


def derive(t: Any, x: Any, row: Op, attributes: dict[str, Any], modes: Modes) -> None:
    """t was made from x by a view op: where they share memory, t becomes a view of x's base."""
    parent: View | None = x._view
    if t._a.base is not x._a and not _shares(t._a, x, parent):
        return
    cell = x._v
    t._v = cell if cell is not None else cell_of(x)
    view = t._view = View()
    view.creation = DEFAULT if modes.grad else UNRECORDED
    if parent is None or not parent.steps:
        view.base, view.base_node, view.steps = x, x._node, (row, attributes, None)
        return
    if modes.grad:
        view.creation = parent.creation
    base = parent.base
    view.base, view.base_node = base, base._node
    view.steps = (*parent.steps, row, attributes, None)


def view_outputs(
    arrays: tuple[Any, ...], x: Any, row: Op, attributes: dict[str, Any], modes: Modes
) -> tuple[Any, ...]:
    """Tensors over what a view op of several outputs made of x, views of its base as `derive`
    says.
    """
    parent: View | None = x._view
    cell, creation = cell_of(x), MULTI_OUTPUT if modes.grad else UNRECORDED
    base, steps = (x, ()) if parent is None or not parent.steps else (parent.base, parent.steps)
    whole, node, tensor = x._a, base._node, Binding.tensor
    ts = []
    for k, array in enumerate(arrays):
        t = blank(tensor)
        t._a = array
        t._node = t._slot = None
        t._nr = 0
        if array.base is whole or _shares(array, x, parent):
            t._v = cell
            view = t._view = View()
            view.base = base
            view.base_node = node
            view.creation = creation
            view.steps = (*steps, row, attributes, k) if steps else (row, attributes, k)
        else:
            t._v = t._view = None
        ts.append(t)
    return tuple(ts)


def _shares(array: Any, x: Any, parent: View | None) -> bool:
    """Whether what a view op made of x is a view of it or (as_strided beside x) of its base."""
    if memory.is_view_of(array, x._a) or not array.size:
        return True
    return parent is not None and memory.is_view_of(array, parent.base._a)


def refresh(x: Any) -> None:
    """Bring a view's edge up to date with its base."""
    view: View = x._view
    base = view.base
    if base._view is not None:
        refresh(base)
    if base._node is view.base_node or view.creation == UNRECORDED:
        return
    if view.creation in (CUSTOM, HOOKED):
        if x._version != view.version:
            name = HOOK_NODE if view.creation == HOOKED else x._node.name()
            raise RuntimeError(
                f"Output {x._nr} of {name} is a view and its base or another view of its "
                "base has been modified inplace. This view was created inside a custom Function "
                "(or because an input was returned as-is). clone() what forward returns."
            )
        return
    view.base_node = base._node
    if base._node is None:
        x._node, x._nr = None, 0
        return
    outer = get_modes()
    set_modes(with_grad(outer, True))
    try:
        t = replay(base, view.steps)
    finally:
        set_modes(outer)
    before, nr = x._node, x._nr
    x._node, x._nr = t._node, t._nr
    move_retains(x, before, nr)


def move_retains(x: Any, before: Any, nr: int) -> None:
    """retain_grad follows the tensor to its new version, and so do hooks with follow_inplace; the
    others stay with the old one.
    """
    if before is not None and before.hooks is not None:
        follow(x, before.hooks.tensor.get(nr))
    slot = x._slot
    if slot is not None and slot.retains and before is not None and before.hooks is not None:
        before.hooks.retains.pop(nr, None)
        x._node.hook_set().retains[x._nr] = slot


def follow(x: Any, table: HookTable | None) -> None:
    """Hooks with follow_inplace go from an old version's table to x as it is now."""
    if table and FOLLOWS in table.all_flags:
        table.hand_over(hook_table(x._node, x._nr), FOLLOWS)


def edge_of(x: Any) -> Node | None:
    """The node a tensor's gradient goes to, refreshed when it is a stale view."""
    view: View | None = x._view
    if view is not None and (view.base._node is not view.base_node or view.base._view is not None):
        refresh(x)
    return x._node  # type: ignore[no-any-return]


def replay(base: Any, steps: Steps) -> Any:
    """The view ops again, on a Tensor."""
    t = base
    for row, attributes, index in zip(steps[::3], steps[1::3], steps[2::3], strict=True):
        made = getattr(record.ops, row.name)(t, **attributes)
        t = made if index is None else made[index]
    return t


def replay_array(array: Any, steps: Steps) -> Any:
    """The view ops on a bare array of the base's layout: a view of it."""
    xp = ARRAY_MODULES[type(array)]
    for row, attributes, index in zip(steps[::3], steps[1::3], steps[2::3], strict=True):
        made = row.forward(xp, array, **attributes)
        array = made if index is None else made[index]
    return array


class CopySlices(Node):
    """History of a base after an in-place op on one of its views (PyTorch: `CopySlices`).

    saved: (the op's node over the slice), None in it when the slice's gradient goes on as it is,
    to `onward`; has_base:
    the base itself had a history (the first edge); slice_edge: the op's first edge is the old
    slice, part of the base; order: the base's axes by falling stride, so that views of the
    gradient's copy are views as they were on the base.
    """

    __slots__ = ("has_base", "order", "slice_edge", "steps")
    saves = True

    def __init__(self, base: Any, steps: Steps, fn: Any, onward: tuple[Any, ...] = ()) -> None:
        node = edge_of(base)
        self.seq = numbering.draw()
        self.hooks = None
        if Process.started and backend.is_cupy(base._a):
            note_stream(self, base._a)
        self.saved = (fn,)
        self.shape = base._a.shape
        self.dtype = base._a.dtype
        self.steps = steps
        self.has_base = node is not None
        first = fn is not None and bool(fn.edge_positions) and fn.edge_positions[0] == 0
        self.slice_edge = first and self.has_base
        strides = base._a.strides
        self.order = tuple(sorted(range(len(strides)), key=lambda k: -strides[k]))
        rest = onward if fn is None else fn.edges[2 if self.slice_edge else 0 :]
        self.edges = ((node, base._nr) if self.has_base else ()) + rest

    def _fn(self) -> Any:
        if self.saved is None:
            raise released_error()
        return self.saved[0]

    def _order_back(self) -> tuple[int, ...]:
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    def backward(self, g: Any) -> tuple[Any, ...]:
        fn = self._fn()
        whole = g.transpose(self.order).copy().transpose(self._order_back())
        part = replay_array(whole, self.steps)
        grads: tuple[Any, ...] = (part.copy(),) if fn is None else fn.backward(part.copy())
        if not self.has_base:
            return grads
        part[...] = ARRAYS.conform(grads[0], part.shape, part.dtype) if self.slice_edge else 0
        return (whole, *grads[1 if self.slice_edge else 0 :])

    def backward_recorded(self, g: Any) -> tuple[Any, ...]:
        from gradhook.autograd.inplace import inplace

        fn, ops = self._fn(), record.ops
        copy = ops.contiguous_copy(ops.permute_dims(g, dims=self.order))
        whole = ops.permute_dims(copy, dims=self._order_back())
        part = ops.clone(replay(whole, self.steps))
        grads: tuple[Any, ...] = (part,) if fn is None else fn.backward_recorded(part)
        if not self.has_base:
            return grads
        inplace(TABLE["copy"], replay(whole, self.steps), grads[0] if self.slice_edge else 0.0)
        return (whole, *grads[1 if self.slice_edge else 0 :])


def alias_at(t: Any, node: Node, nr: int) -> Any:
    """A new object that stands for t with its gradient going to (node, nr): the barriers' alias."""
    cell = t._v
    if cell is None:
        cell = t._v = [0, None]
    made = blank(Binding.tensor)
    made._a, made._v, made._node, made._nr, made._slot = t._a, cell, node, nr, None
    of = t._view  # an alias of an alias stands for the same tensor: chains of them stay flat
    base = t if of is None or of.steps or of.creation is not DEFAULT else of.base
    view = made._view = View()
    view.base, view.base_node, view.steps, view.creation = base, base._node, (), DEFAULT
    return made


def stand_in(t: Any) -> None:
    """Make t, a view that a module returns, an alias of a hidden copy of itself: its writes pass
    the output barrier.
    """
    hidden = make_at(t._a, t._node, t._nr)
    hidden._v, hidden._view = cell_of(t), t._view
    t._view = View.of(hidden, (), DEFAULT)


def keep_own_edge(t: Any, barrier: Node) -> None:
    """t, an output at a barrier, is a view of another output there: its gradient goes to its own
    place, not by way of the other's, until one of them is written."""
    hidden = t._view.base if t._view is not None and not t._view.steps else None
    view = None if hidden is None else hidden._view
    if view is not None and view.base._node is barrier:
        view.base_node = barrier


def attach(ts: tuple[Any, ...], node: Node, outputs: tuple[int, ...] | None) -> None:
    """The outputs that have a gradient get their edge to the node."""
    for k in range(len(ts)) if outputs is None else outputs:
        t = ts[k]
        if t._a.dtype.kind in "fc":
            t._node, t._nr = node, k


def alias(t: Any) -> Any:
    """The same memory and version without history (PyTorch: `detach`)."""
    made = make(t._a)
    made._v = cell_of(t)
    return made
