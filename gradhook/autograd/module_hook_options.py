"""Module calls whose backward hooks were registered with options (with_kwargs, when, keep_io), and
calls under compat("torch"). A call without any of these has the plain ModuleBackwardHookState.

Contract: HOOKS.md A0, A2 B1, B5.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from gradhook import profiler
from gradhook.autograd.carriers import lent
from gradhook.autograd.engine import current_task, running_carrier
from gradhook.autograd.graph import TensorMeta
from gradhook.autograd.hook_notes import hook_name
from gradhook.autograd.module_hook_node import CallRun, ModuleBackwardHookState
from gradhook.autograd.node_hooks import checked
from gradhook.hooks.calls import get_here, new_here
from gradhook.hooks.registry import Entry

if TYPE_CHECKING:
    from gradhook.autograd.graph_task import GraphTask

NO_INPUT = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since "
    "no inputs require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module"
    ".html#torch.nn.Module.register_full_backward_hook for more details."
)


class OptionHookState(ModuleBackwardHookState):
    """entries: the full hooks with their flags, early ones left out; early_hooks: when="outputs";
    complete_hooks: when="complete"; region: numbers of the nodes made within the call, for those.
    compat: PyTorch's rules; zeros: then, positions of arguments without an edge and what a
    gradient of them would look like.
    """

    __slots__ = ("compat", "complete_hooks", "early_hooks", "entries", "region", "zeros")

    compat: bool
    entries: tuple[Entry, ...]
    zeros: list[tuple[int, TensorMeta]]

    def take(self, entries: tuple[Entry, ...], compat: bool) -> None:
        """The full backward hooks of the call. compat: under compat("torch")."""
        self.compat, self.zeros, self.region = compat, [], frozenset()
        self.early_hooks = tuple(e for e in entries if "outputs" in e[2])
        self.complete_hooks = tuple(e for e in entries if "complete" in e[2])
        self.entries = tuple(e for e in entries if "outputs" not in e[2])
        self.full_hooks = tuple(hook for _, hook, _ in self.entries)

    # ---- hooks of one kind

    def run_pre_hooks(
        self, grad_outputs: tuple[Any, ...], first: int = 0
    ) -> tuple[Any, ...] | None:
        if self.compat and not self.input_leaves:
            warnings.warn(NO_INPUT, stacklevel=2)
        return super().run_pre_hooks(grad_outputs, first)

    def run_full_hooks(
        self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...], first: int = 0
    ) -> tuple[Any, ...] | None:
        """As the plain state's; keyword arguments have no gradient here."""
        leaves = self.inputs.unpack(grad_inputs, [None] * self.inputs.n_leaves)
        found = self.replaced_inputs(leaves, grad_outputs, first)
        return None if found is None else self.inputs.pack(found)

    def replaced_inputs(
        self, leaves: list[Any], grad_outputs: tuple[Any, ...], first: int = 0
    ) -> list[Any] | None:
        if self.compat:
            leaves = self._with_zeros(leaves)
        replaced, hook = self.compat, None
        here = get_here()
        if here.thread != get_ident():
            here = new_here()
        outer, here.call = here.call, self
        try:
            for _, hook, flags in self.entries[first:]:
                if "complete" not in flags:
                    result = self._called(hook, flags, leaves, grad_outputs)
                    if result is not None:
                        leaves, replaced = self._accepted(hook, flags, result, leaves), True
        except BaseException as error:
            self.noted(error, "full backward hook", hook, "ModuleInputHookNode")
            raise
        finally:
            here.call = outer
        task = current_task()
        run = None if task is None else task.local.get(self)
        if self.complete_hooks and run is not None:
            run.final = (leaves, grad_outputs)
        return leaves if replaced else None

    def run_early_hooks(self, grad_outputs: tuple[Any, ...]) -> None:
        """Hooks with when="outputs": the gradients of the inputs are not known yet."""
        leaves: list[Any] = [None] * self.inputs.n_leaves
        self._observe(self.early_hooks, leaves, grad_outputs, "outputs", "ModuleOutputHookNode")

    def run_complete_hooks(self, task: GraphTask, run: CallRun) -> None:
        """Hooks with when="complete", in a run that has executed every node of the call."""
        if run.final is None:  # the gradients stopped before they reached an input
            outputs: Sequence[Any] = [None] * self.outputs.n_leaves
            if run.slots is not None:
                outputs = self.outputs_seen(task, run)
            run.final = ([None] * self.inputs.n_leaves, self.outputs.pack(outputs))
        leaves, grad_outputs = run.final
        self._observe(self.complete_hooks, leaves, grad_outputs, "complete", "ModuleInputHookNode")
        run.final = None

    def _observe(
        self, entries: tuple[Entry, ...], leaves: list[Any], grad_outputs: Any, when: str, node: str
    ) -> None:
        """Hooks that replace nothing. Errors: RuntimeError for one that returns a value."""
        hook = None
        here = get_here()
        if here.thread != get_ident():
            here = new_here()
        outer, here.call = here.call, self
        try:
            for _, hook, flags in entries:
                result = self._called(hook, flags, leaves, grad_outputs)
                if result is not None:
                    raise RuntimeError(
                        f"hook '{hook_name(hook)}' of {self.title} returned a "
                        f"{type(result).__name__}, expected None: with when={when!r} it cannot "
                        "replace a gradient"
                    )
        except BaseException as error:
            self.noted(error, f"full backward hook (when={when!r})", hook, node)
            raise
        finally:
            here.call = outer

    # ---- one hook

    def _called(
        self, hook: Any, flags: frozenset[str], leaves: list[Any], grad_outputs: Any
    ) -> Any:
        inputs: Any = self.inputs
        seen: tuple[Any, ...] = (inputs.pack(leaves),)
        if "with_kwargs" in flags:
            seen += (inputs.pack_named(leaves),)
        if profiler.counters():
            return self._counted(hook, *seen, grad_outputs)
        return hook(self.module, *seen, grad_outputs)

    def _accepted(
        self, hook: Any, flags: frozenset[str], result: Any, leaves: list[Any]
    ) -> list[Any]:
        """The leaves after a hook's result: grad_input, or with_kwargs a pair of it and a dict."""
        named: Any = None
        if "with_kwargs" in flags and _is_pair(result):
            result, named = result
        shown = self.inputs.pack(leaves)
        if result is not None and not (named is None and self.is_nothing(hook, result)):
            if self.compat:
                result = self._dropped(result, shown)
            metas = self.input_leaf_metas
            for k, meta in self.zeros:
                metas[k] = meta
            place = ("grad_input", "Backward", self.inputs, metas)
            leaves = self.inputs.unpack(self._checked(hook, result, shown, *place), leaves)
        if named is not None:
            leaves = self._named(hook, named, leaves)
        return leaves

    def _named(self, hook: Any, named: Mapping[str, Any], leaves: list[Any]) -> list[Any]:
        """The leaves with the gradients that a hook returned for keyword arguments.

        Errors: RuntimeError for a name that is no keyword argument of the call.
        """
        inputs: Any = self.inputs
        unknown = [name for name in named if name not in inputs.names]
        if unknown:
            raise RuntimeError(
                f"hook '{hook_name(hook)}' of {self.title} returned a gradient for "
                f"{unknown[0]!r}, expected keyword arguments of the call: {list(inputs.names)}"
            )
        found = inputs.unpack_named(named, leaves)
        metas, owners = self.input_leaf_metas, inputs.owners
        for k, (t, old) in enumerate(zip(found, leaves, strict=True)):
            if t is not None and t is not old:
                checked(hook, t, metas[k], f"grad_kwargs[{owners[k]!r}] of {self.title}")
                found[k] = lent(t._a, t._node, t._nr)
        return found  # type: ignore[no-any-return]

    # ---- compat

    def _with_zeros(self, leaves: list[Any]) -> list[Any]:
        """Zeros where PyTorch has them: for tensors that take or got no gradient."""
        if not self.input_leaves:
            if not self.pre_hooks:
                warnings.warn(NO_INPUT, stacklevel=2)
            return leaves
        carrier = running_carrier()
        edges = zip(self.input_leaves, self.input_metas, strict=True)
        filled = list(leaves)
        for k, meta in (*edges, *self.zeros):
            if filled[k] is None:
                filled[k] = carrier.lend(carrier.zeros(meta))
        return filled

    def _dropped(self, result: Any, shown: tuple[Any, ...]) -> Any:
        """PyTorch takes no notice of what is returned for an argument without a gradient."""
        if not isinstance(result, tuple | list) or len(result) != len(shown):
            return result
        takes = {*self.input_leaves, *(k for k, _ in self.zeros)}
        return tuple(r if k in takes else shown[k] for k, r in enumerate(result))


def _is_pair(result: Any) -> bool:
    """Whether a with_kwargs hook returned (new_args, new_kwargs), not new_args."""
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)
