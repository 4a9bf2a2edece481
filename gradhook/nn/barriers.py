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

from gradhook.autograd.graph import TensorMeta
from gradhook.autograd.module_hook_node import (
    ModuleBackwardHookState,
    ModuleInputHookNode,
    ModuleOutputHookNode,
)
from gradhook.autograd.views import alias_at, edge_of, stand_in
from gradhook.nn import tree
from gradhook.nn.runners import FullRunner, Layout, PreRunner
from gradhook.tensor import Tensor

_opaque_seen: set[type] = set()


class Barriers:
    """Wraps one call: `enter` before forward, `leave` after it, `leave_again` when a forward hook
    replaced outputs.
    """

    __slots__ = ("full_runner", "module", "output_node", "pre_runner", "start", "state")

    def __init__(
        self, module: Any, pre_runner: PreRunner | None, full_runner: FullRunner | None
    ) -> None:
        self.module = module
        self.pre_runner = pre_runner
        self.full_runner = full_runner
        self.output_node: ModuleOutputHookNode | None = None

    def enter(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put the input barrier before every tensor of args and kwargs that has a gradient."""
        layout = Layout(args)
        keywords = Layout(tuple(kwargs.values()))
        n_leaves = len(layout.leaves) + len(keywords.leaves)
        state = ModuleBackwardHookState(self.pre_runner, self.full_runner, layout.count, n_leaves)
        node = ModuleInputHookNode(state)
        self.state, self.start = state, node.seq
        positions: list[int | str] = []
        leaves: list[int] = []
        names = list(kwargs)
        for part, owners, first in (
            (layout, _owners(layout), 0),
            (keywords, [names[k] for k in _owners(keywords)], len(layout.leaves)),
        ):
            for k, leaf in enumerate(part.leaves):
                if isinstance(leaf, Tensor) and edge_of(leaf) is not None:
                    part.leaves[k] = _entered(node, leaf)
                    positions.append(owners[k])
                    leaves.append(first + k)
        if leaves:
            args = layout.rebuilt(layout.leaves)
            kwargs = dict(zip(names, keywords.rebuilt(keywords.leaves), strict=True))
        state.input_arg_indices, state.input_leaves = tuple(positions), tuple(leaves)
        state.input_metas = tuple(node.metas)
        layout.finish()
        if self.full_runner is not None:
            self.full_runner.inputs = layout
        return args, kwargs

    def leave(self, output: Any) -> Any:
        """Put the output barrier behind every tensor of the output that has a gradient."""
        several = isinstance(output, tuple | list)
        layout = Layout(tuple(output) if several else (output,))
        node = ModuleOutputHookNode(self.state)
        metas: list[TensorMeta | None] = [None] * len(layout.leaves)
        indices: list[int] = []
        seen: set[int] = set()
        aliased = False
        for k, leaf in enumerate(layout.leaves):
            if isinstance(leaf, Tensor):
                if edge_of(leaf) is not None:
                    layout.leaves[k] = self._left(node, leaf, id(leaf) in seen)
                    aliased = aliased or layout.leaves[k] is not leaf
                    metas[k] = node.metas[-1]
                    indices.append(k)
                    seen.add(id(leaf))
            elif leaf is not None and not isinstance(leaf, int | float | complex | str | bytes):
                _warn_opaque(type(leaf))
        if not indices:
            return output
        self.output_node = node
        state = self.state
        state.n_outputs = layout.count
        state.output_metas, state.output_edge_indices = tuple(metas), tuple(indices)
        if aliased:
            flat = type(output) is tuple or not several
            if layout.spec is None and flat:
                output = tuple(layout.leaves) if several else layout.leaves[0]
            else:
                output = tree.unflatten(tree.flatten(output)[1], layout.leaves)
        layout.finish()
        for runner in (self.pre_runner, self.full_runner):
            if runner is not None:
                runner.outputs = layout
        return output

    def leave_again(self, output: Any) -> Any:
        """A forward hook replaced the output: a fresh barrier over all of it; the first becomes
        transparent.
        """
        if self.output_node is not None:
            self.output_node.transparent = True
        return self.leave(output)

    def _left(self, node: ModuleOutputHookNode, t: Tensor, repeated: bool) -> Tensor:
        made_here = (
            t._node.seq > self.start and not t._node.leaf and not repeated and not _stands_for(t)
        )
        nr = node.add(t._node, t._nr, TensorMeta(t._a.shape, t._a.dtype, type(t._a)))
        if not made_here:
            made: Tensor = alias_at(t, node, nr)
            return made
        if t._view is not None:
            stand_in(t)
        t._node, t._nr = node, nr
        return t


def _stands_for(t: Tensor) -> bool:
    return t._view is not None and not t._view.steps


def _entered(node: ModuleInputHookNode, t: Tensor) -> Tensor:
    nr = node.add(t._node, t._nr, TensorMeta(t._a.shape, t._a.dtype, type(t._a)))
    made: Tensor = alias_at(t, node, nr)
    return made


def _owners(layout: Layout) -> list[int]:
    """The argument position of each leaf."""
    if layout.spec is None:
        return list(range(layout.count))
    return [k for k, child in enumerate(layout.spec.children) for _ in range(child.n_leaves)]


def _warn_opaque(kind: type) -> None:
    if kind not in _opaque_seen:
        _opaque_seen.add(kind)
        warnings.warn(
            f"For backward hooks to be called, module output should be made of Tensors and "
            f"containers gradhook knows: it "
            f"cannot see tensors inside {kind}; register it with "
            f"gradhook.nn.tree.register_pytree_node",
            stacklevel=4,
        )
