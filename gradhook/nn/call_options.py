"""The parts of a module call that only hooks with options ask for: barriers that log what is made
between them, PyTorch's own barriers under compat("torch"), and what keep_io keeps.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

from gradhook.autograd.graph import meta_of
from gradhook.autograd.module_hook_node import ModuleBackwardHookState
from gradhook.autograd.module_hook_options import OptionHookState
from gradhook.autograd.numbering import Region
from gradhook.autograd.views import HOOKED, stand_in
from gradhook.hooks.calls import Call, get_here
from gradhook.hooks.everywhere import everywhere
from gradhook.hooks.registry import Entry
from gradhook.modes import get_modes
from gradhook.nn import tree
from gradhook.nn.barriers import enter, leave
from gradhook.tensor import Tensor


def state_of(call: Call, pre_hooks: tuple[Any, ...], entries: tuple[Entry, ...]) -> OptionHookState:
    """The state of a call that has options, made now when a forward-pre hook registered the first
    backward hook.
    """
    state = call
    if not isinstance(state, OptionHookState):
        state = OptionHookState()
        state.module, state.top, state.position = call.module, call.top, call.position
        if hasattr(call, "kept"):
            state.kept = call.kept
        get_here().call = state
    state.pre_hooks, state.skipped = pre_hooks, 0
    state.take(entries, get_modes().compat)
    return state


def upgraded(call: Any, own: dict[str, Any]) -> Any:
    """The call, with options if forward-pre hooks just registered backward hooks that have some."""
    tables = [own.get(name) for name in ("_backward_hooks", "_backward_pre_hooks")]
    plain = type(call) is ModuleBackwardHookState and not everywhere.flagged
    if plain and not any(t is not None and t.all_flags for t in tables):
        return call
    return state_of(call, (), ()) if type(call) is ModuleBackwardHookState else call


class Barriers:
    """The two barriers of one call; with complete hooks, a region round them."""

    def __init__(self, state: OptionHookState) -> None:
        self.state = state
        self.region = Region() if state.complete_hooks else None
        self.node: Any = None
        self.given: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})  # of forward

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.region is not None:
            self.state.region = self.region.numbers()
            self.region.close()

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """As barriers.enter."""
        if not self.state.compat:
            self.given = enter(self.state, args, kwargs)
            return self.given
        given, _ = enter(self.state, args, {}, flat=True)
        self.state.zeros = [
            (k, meta_of(t._a))
            for k, t in enumerate(args)
            if isinstance(t, Tensor) and k not in self.state.input_leaves
        ]
        for t, old in zip(given, args, strict=True):
            if t is not old:
                t._view.freeze(t, HOOKED)
        self.given = given, kwargs
        return self.given

    def leave(self, output: Any) -> Any:
        """As barriers.leave; a second time, it takes the place of the first."""
        if self.node is not None:
            self.node.transparent = True
        if not self.state.compat:
            output, self.node = leave(self.state, output, *self.given)
            return output
        if not isinstance(output, Tensor | tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(output)}",
                stacklevel=4,
            )
            return output
        output, self.node = leave(self.state, output, *self.given, flat=True)
        for t in output if isinstance(output, tuple) else (output,):
            if isinstance(t, Tensor) and t._node is self.node is not None:
                if t._view is None or t._view.steps:
                    stand_in(t)
                t._view.freeze(t, HOOKED)
        return output


def keep(call: Any, own: dict[str, Any], **values: Any) -> None:
    """Keep values of the call for its hooks, tensors detached, if a hook of it asked for that."""
    tables = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    if any("keep_io" in own[name].all_flags for name in tables if name in own):
        kept = {name: tree.map(_detached, value) for name, value in values.items()}
        call.kept = {**getattr(call, "kept", {}), **kept}


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf
