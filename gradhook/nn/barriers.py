"""The barriers of one module call: inputs get an edge to the input barrier, outputs one to the
output barrier.

A tensor made inside the call gets its edge replaced on the same object. An alias (a new object
over the same memory and version) stands for an input, and for an output that is an input, a leaf,
a tensor of an earlier call, or the same object as another output. An in-place op on an alias moves
the tensor it stands for, too (autograd/inplace.py).
"""

from __future__ import annotations

from typing import Any

from gradhook.autograd.compiled import blank
from gradhook.autograd.graph import TensorMeta, meta_of
from gradhook.autograd.module_hook_node import (
    ModuleBackwardHookState,
    ModuleInputHookNode,
    ModuleOutputHookNode,
)
from gradhook.autograd.numbering import numbering
from gradhook.autograd.views import alias_at, keep_own_edge, refresh, stand_in
from gradhook.hooks.notices import HookNotFiringWarning, warn_once
from gradhook.modes import get_modes
from gradhook.nn import tree
from gradhook.nn.layout import SINGLE, layout_of
from gradhook.tensor import Tensor

FIRST = (0,)


def enter(
    state: ModuleBackwardHookState, args: tuple[Any, ...], kwargs: dict[str, Any],
    flat: bool = False,
) -> tuple[tuple[Any, ...], dict[str, Any]]:  # fmt: skip
    """Put the input barrier before every tensor of args and kwargs that has a gradient. flat:
    containers are not looked into.
    """
    node = blank(ModuleInputHookNode)
    node.seq = state.start = numbering.draw()
    if len(args) == 1 and not kwargs and type(args[0]) is Tensor:  # most calls
        x = args[0]
        if x._view is not None:
            refresh(x)
        state.inputs = SINGLE
        if x._node is None:
            state.input_leaves = state._input_metas = ()
            return args, kwargs
        a = x._a
        node.saved, node.hooks, node.multi, node.edges = state, None, False, (x._node, x._nr)
        shape, dtype = node.shape, node.dtype = a.shape, a.dtype
        state.input_leaves = FIRST
        state._input_metas = node.metas = ((shape, dtype, type(a)),)
        return (alias_at(x, node, 0),), kwargs
    values, names = ((*args, *kwargs.values()), tuple(kwargs)) if kwargs else (args, ())
    layout, leaves = layout_of(values, len(args), names, flat)
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
    state.inputs, state.input_leaves, state._input_metas = layout, positions, metas
    if not positions:
        return args, kwargs
    node.close(state, tuple(edges), metas)
    values = layout.rebuilt(leaves)
    if not kwargs:
        return values, kwargs
    return values[: len(args)], dict(zip(names, values[len(args) :], strict=True))


def leave(
    state: ModuleBackwardHookState, output: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
    flat: bool = False,
) -> tuple[Any, ModuleOutputHookNode | None]:  # fmt: skip
    """Put the output barrier behind every tensor of the output that has a gradient; returns the
    output and the barrier, None when nothing has one. Under no_grad only what was made inside
    gets it. args, kwargs: what forward got. flat: as for `enter`."""
    grad = get_modes().grad
    if not grad:
        output = _with_edges_of_inputs(state, output)
    if type(output) is Tensor:  # most calls
        return _leave_single(state, output, grad, args, kwargs)
    several = isinstance(output, tuple | list)
    values = tuple(output) if several else (output,)
    layout, leaves = layout_of(values, len(values), (), flat)
    node = blank(ModuleOutputHookNode)
    node.seq = numbering.draw()
    edges: list[Any] = []
    metas: list[TensorMeta] = []
    positions: list[int] = []
    for k, leaf in enumerate(leaves):  # every edge is read before the first is replaced
        if isinstance(leaf, Tensor):
            if leaf._view is not None:
                refresh(leaf)
            if leaf._node is not None and (grad or _is_made_inside(state, leaf._node)):
                edges += (leaf._node, leaf._nr)
                metas.append(meta_of(leaf._a))
                positions.append(k)
        elif (
            not flat
            and leaf is not None
            and not isinstance(leaf, int | float | complex | str | bytes)
        ):
            _warn_opaque(type(leaf))
    if not positions:
        if any(isinstance(leaf, Tensor) for leaf in leaves):
            _warn_no_output(state)
        return output, None
    left = [_left(state, node, leaves[k], nr, args, kwargs) for nr, k in enumerate(positions)]
    aliased = False
    for k, t in zip(positions, left, strict=True):
        keep_own_edge(t, node)
        aliased = aliased or t is not leaves[k]
        leaves[k] = t
    state.outputs, state.output_edge_indices, state._output_metas = layout, positions, metas
    node.transparent = False
    node.close(state, tuple(edges), metas)
    if aliased:
        if several and flat:
            output = getattr(type(output), "_make", type(output))(leaves)
        elif several:
            output = tree.unflatten(tree.flatten(output)[1], leaves)
        else:
            output = layout.rebuilt(leaves)[0]
    return output, node


def _leave_single(
    state: ModuleBackwardHookState, output: Tensor, grad: bool,
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> tuple[Tensor, ModuleOutputHookNode | None]:  # fmt: skip
    if output._view is not None:
        refresh(output)
    origin = output._node
    if origin is None or not (grad or _is_made_inside(state, origin)):
        _warn_no_output(state)
        return output, None
    node = blank(ModuleOutputHookNode)
    node.seq = numbering.draw()
    node.transparent = False
    a = output._a
    node.saved, node.hooks, node.multi = state, None, False
    node.edges = (origin, output._nr)
    shape, dtype = node.shape, node.dtype = a.shape, a.dtype
    state.outputs, state.output_edge_indices = SINGLE, FIRST
    state._output_metas = node.metas = ((shape, dtype, type(a)),)
    if output._view is None and output._v is None and origin.seq > state.start and not origin.leaf:
        output._node, output._nr = node, 0  # most calls
        return output, node
    return _left(state, node, output, 0, args, kwargs), node


def _left(
    state: ModuleBackwardHookState, node: ModuleOutputHookNode, t: Tensor, nr: int,
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> Tensor:  # fmt: skip
    """The output `t` behind the barrier: itself when it was made inside, else an alias. An input
    that only a write in forward gave a history (it has a version then) was not made inside."""
    view, edge = t._view, t._node
    inside = edge is not node and _is_made_inside(state, edge) and (view is None or view.steps)
    if inside and (t._v is None or not _is_among(t, args, kwargs)):
        if view is not None:
            stand_in(t)
        t._node, t._nr = node, nr
        return t
    alias: Tensor = alias_at(t, node, nr)
    return alias


def _is_made_inside(state: ModuleBackwardHookState, node: Any) -> bool:
    return bool(node.seq > state.start and not node.leaf)


def _is_among(t: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(leaf is t for leaf in tree.flatten((args, kwargs))[0])


def _with_edges_of_inputs(state: ModuleBackwardHookState, output: Any) -> Any:
    """Inputs that forward gives back under no_grad are as they came: their edge is the caller's,
    and a leaf is the very tensor."""
    leaves, spec = tree.flatten(output)
    changed = False
    for k, t in enumerate(leaves):
        node = t._node if isinstance(t, Tensor) else None
        if isinstance(node, ModuleInputHookNode) and node.saved is state:
            origin, nr = node.edges[2 * t._nr], node.edges[2 * t._nr + 1]
            leaf = origin.slot.leaf() if origin.leaf and origin.slot.leaf is not None else None
            t._node, t._nr = origin, nr
            changed = changed or leaf is not None
            leaves[k] = t if leaf is None else leaf
    return tree.unflatten(spec, leaves) if changed else output


def _warn_opaque(kind: type) -> None:
    warn_once(
        HookNotFiringWarning,
        kind,
        "opaque output",
        "For backward hooks to be called, module output should be made of Tensors and containers "
        f"gradhook knows: it cannot see tensors inside {kind}; register it with "
        "gradhook.nn.tree.register_pytree_node",
    )


def _warn_no_output(state: ModuleBackwardHookState) -> None:
    """The module's own hooks cannot fire for this call although an input has a gradient."""
    own, modes = state.module.__dict__, get_modes()
    if (
        state.input_leaves
        and modes.grad
        and not modes.compat
        and (own.get("_backward_hooks") or own.get("_backward_pre_hooks"))
    ):
        warn_once(
            HookNotFiringWarning,
            state.module,
            "no output requires grad",
            f"the backward hooks of {state.title} do not fire for this call: an input requires "
            "grad, but no output does (forward detached it, ran under no_grad, or the outputs have "
            "no gradient, as integers)",
        )
