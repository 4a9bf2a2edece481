"""The barriers of one module call: inputs get an edge to the input barrier, outputs one to the
output barrier.

A tensor made inside the call gets its edge replaced on the same object. An alias (a new object
over the same memory and version) stands for an input, and for an output that is an input, a leaf,
a tensor of an earlier call, or the same object as another output. An in-place op on an alias moves
the tensor it stands for, too (autograd/inplace.py).
"""

from __future__ import annotations

import warnings
from typing import Any

from gradhook.autograd.graph import TensorMeta, meta_of, next_sequence_nr
from gradhook.autograd.module_hook_node import (
    ModuleBackwardHookState,
    ModuleInputHookNode,
    ModuleOutputHookNode,
)
from gradhook.autograd.views import alias_at, keep_own_edge, refresh, stand_in
from gradhook.nn import tree
from gradhook.nn.layout import SINGLE, layout_of
from gradhook.tensor import Tensor

FIRST = (0,)
new_meta: Any = tuple.__new__  # half the price of a named tuple's own constructor
_opaque_seen: set[type] = set()


def enter(
    state: ModuleBackwardHookState, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Put the input barrier before every tensor of args and kwargs that has a gradient."""
    node = ModuleInputHookNode()
    node.seq = state.start = next_sequence_nr()
    if len(args) == 1 and not kwargs and type(args[0]) is Tensor:  # most calls
        x = args[0]
        if x._view is not None:
            refresh(x)
        state.inputs = SINGLE
        if x._node is None:
            state.input_leaves = state.input_metas = ()
            return args, kwargs
        a = x._a
        node.saved, node.hooks, node.multi, node.edges = state, None, False, (x._node, x._nr)
        shape, dtype = node.shape, node.dtype = a.shape, a.dtype
        state.input_leaves = FIRST
        state.input_metas = node.metas = (new_meta(TensorMeta, (shape, dtype, type(a))),)
        return (alias_at(x, node, 0),), kwargs
    values, names = ((*args, *kwargs.values()), tuple(kwargs)) if kwargs else (args, ())
    layout, leaves = layout_of(values, len(args), names)
    edges: list[Any] = []
    metas: list[TensorMeta] = []
    positions: list[int] = []
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            if leaf._view is not None:
                refresh(leaf)
            if leaf._node is not None:
                leaves[k] = alias_at(leaf, node, len(metas))
                edges += (leaf._node, leaf._nr)
                metas.append(meta_of(leaf._a))
                positions.append(k)
    state.inputs, state.input_leaves, state.input_metas = layout, positions, metas
    if not positions:
        return args, kwargs
    node.close(state, tuple(edges), metas)
    values = layout.rebuilt(leaves)
    if not kwargs:
        return values, kwargs
    return values[: len(args)], dict(zip(names, values[len(args) :], strict=True))


def leave(state: ModuleBackwardHookState, output: Any) -> tuple[Any, ModuleOutputHookNode | None]:
    """Put the output barrier behind every tensor of the output that has a gradient; returns the
    output and the barrier, None when nothing has one."""
    if type(output) is Tensor:  # most calls
        return _leave_single(state, output)
    several = isinstance(output, tuple | list)
    values = tuple(output) if several else (output,)
    layout, leaves = layout_of(values, len(values))
    node = ModuleOutputHookNode()
    node.seq = next_sequence_nr()
    edges: list[Any] = []
    metas: list[TensorMeta] = []
    positions: list[int] = []
    for k, leaf in enumerate(leaves):  # every edge is read before the first is replaced
        if isinstance(leaf, Tensor):
            if leaf._view is not None:
                refresh(leaf)
            if leaf._node is not None:
                edges += (leaf._node, leaf._nr)
                metas.append(meta_of(leaf._a))
                positions.append(k)
        elif leaf is not None and not isinstance(leaf, int | float | complex | str | bytes):
            _warn_opaque(type(leaf))
    if not positions:
        return output, None
    left = [_left(state, node, leaves[k], nr) for nr, k in enumerate(positions)]
    aliased = False
    for k, t in zip(positions, left, strict=True):
        keep_own_edge(t, node)
        aliased = aliased or t is not leaves[k]
        leaves[k] = t
    state.outputs, state.output_edge_indices, state.output_edge_metas = layout, positions, metas
    node.transparent = False
    node.close(state, tuple(edges), metas)
    if aliased:
        if several:
            output = tree.unflatten(tree.flatten(output)[1], leaves)
        else:
            output = layout.rebuilt(leaves)[0]
    return output, node


def _leave_single(
    state: ModuleBackwardHookState, output: Tensor
) -> tuple[Tensor, ModuleOutputHookNode | None]:
    if output._view is not None:
        refresh(output)
    if output._node is None:
        return output, None
    node = ModuleOutputHookNode()
    node.seq = next_sequence_nr()
    node.transparent = False
    a = output._a
    node.saved, node.hooks, node.multi = state, None, False
    node.edges = (output._node, output._nr)
    shape, dtype = node.shape, node.dtype = a.shape, a.dtype
    state.outputs, state.output_edge_indices = SINGLE, FIRST
    state.output_edge_metas = node.metas = (new_meta(TensorMeta, (shape, dtype, type(a))),)
    if output._view is None and node.edges[0].seq > state.start and not node.edges[0].leaf:
        output._node, output._nr = node, 0  # made inside the call
        return output, node
    return _left(state, node, output, 0), node


def _left(state: ModuleBackwardHookState, node: ModuleOutputHookNode, t: Tensor, nr: int) -> Tensor:
    """The output `t` behind the barrier: itself when it was made inside, else an alias."""
    view, edge = t._view, t._node
    made_inside = edge.seq > state.start and not edge.leaf and edge is not node
    if not made_inside or (view is not None and not view.steps):
        alias: Tensor = alias_at(t, node, nr)
        return alias
    if view is not None:
        stand_in(t)
    t._node, t._nr = node, nr
    return t


def _warn_opaque(kind: type) -> None:
    if kind not in _opaque_seen:
        _opaque_seen.add(kind)
        warnings.warn(
            "For backward hooks to be called, module output should be made of Tensors and "
            f"containers gradhook knows: it cannot see tensors inside {kind}; register it with "
            "gradhook.nn.tree.register_pytree_node",
            stacklevel=4,
        )
