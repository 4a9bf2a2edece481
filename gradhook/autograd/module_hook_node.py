"""The two barriers round a module call: nodes in the graph that fire module backward hooks.

No op, no kernel, no view relation: the input barrier is a Node whose edges are the inputs', the
output barrier one whose edges are the outputs'. Both share one immutable
`ModuleBackwardHookState`; what changes in a backward run lives in the run's GraphTask.
Contract: HOOKS.md A2 B3, B4, B7, B10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradhook.autograd.engine import current_task
from gradhook.autograd.graph import Node, TensorMeta, released_error
from gradhook.autograd.graph_task import Pending
from gradhook.autograd.module_hook_runners import ModuleHookRunners
from gradhook.autograd.node_hooks import taken_back
from gradhook.hooks.declared import DeclaredHook, leading
from gradhook.storage import Storage

if TYPE_CHECKING:
    from gradhook.autograd.engine import GraphTask


class CallRun:
    """What one backward run knows of one module call.

    slots: the gradients at the output barrier's edges; output_tensors: as hooks see them, made
    when a hook is due; input_tensors: while the full hooks run; final: what hooks with
    when="complete" will be shown.
    """

    pre_hooks_ran = False
    full_hooks_ran = False
    slots: Any = None
    output_tensors: Sequence[Any] | None = None
    input_tensors: Sequence[Any] | None = None
    final: tuple[list[Any], Any] | None = None


class ModuleBackwardHookState(ModuleHookRunners):
    """One module call's backward hooks, shared by its two barriers and owned by them; immutable
    once the call is over.

    pre_runner(grad_outputs), full_runner(grad_inputs, grad_outputs): fan out to every registered
    hook and return the replaced gradients, None when no hook replaced any; None without hooks.
    inputs, outputs: layouts. input_leaves, input_metas: per input edge, its leaf and what a
    gradient of it looks like; output_edge_indices, output_edge_metas: the same for the output
    barrier's edges. start: tensors with a later sequence number were made inside the call.
    skipped: passes that entered the call other than through an output (double backward), which are
    no event of its hooks. pre_hooks_ran, full_hooks_ran, grad_inputs, grad_outputs: of the current
    backward run (outside one: False, None).
    """

    __slots__ = ("skipped", "start")

    skipped: int
    start: int
    early_hooks: Any = ()  # with when="outputs"; see module_hook_options.py
    complete_hooks: Any = ()  # with when="complete"
    region: frozenset[int] = frozenset()

    def run_early_hooks(self, grad_outputs: tuple[Any, ...]) -> None:
        """Hooks that fire with the gradients of the outputs."""

    @property
    def n_inputs(self) -> int:
        """Positional arguments of the call, with or without an edge."""
        return self.inputs.count

    @property
    def n_outputs(self) -> int:
        """Outputs of the call, with or without an edge."""
        return self.outputs.count

    @property
    def input_arg_indices(self) -> tuple[int | str, ...]:
        """Per input edge, its argument position (a keyword's name)."""
        owners = self.inputs.owners
        return tuple([owners[leaf] for leaf in self.input_leaves])

    def _run(self) -> CallRun | None:
        task = current_task()
        return None if task is None else task.local.get(self)

    @property
    def pre_hooks_ran(self) -> bool:
        """Whether the pre-hooks fired in the current backward run."""
        run = self._run()
        return run is not None and run.pre_hooks_ran

    @property
    def full_hooks_ran(self) -> bool:
        """Whether the full hooks fired in the current backward run."""
        run = self._run()
        return run is not None and run.full_hooks_ran

    @property
    def grad_outputs(self) -> list[Storage | None] | None:
        """Per output leaf, the Storage of its gradient in the current run."""
        task = current_task()
        run = self._run()
        if task is None or run is None or run.slots is None:
            return None
        return [None if t is None else t.storage() for t in self.outputs_seen(task, run)]

    @property
    def grad_inputs(self) -> list[Storage | None] | None:
        """Per input leaf, the Storage of its gradient while the full hooks run."""
        run = self._run()
        if run is None or run.input_tensors is None:
            return None
        return [None if t is None else t.storage() for t in run.input_tensors]

    def outputs_seen(self, task: GraphTask, run: CallRun) -> Sequence[Any]:
        """The output gradients as hooks see them, one a leaf."""
        if run.output_tensors is None:
            positions = self.output_edge_indices
            run.output_tensors = lent_leaves(task.carrier, self.outputs, positions, run.slots)
        return run.output_tensors


class BarrierNode(Node):
    """A barrier: gradients pass through, module hooks fire. metas: the three entries of a
    TensorMeta, an edge.

    The call's state is what it saves, so both barriers let go of it (and of its runners, the
    module and its hooks) as other nodes do of saved tensors. With one edge it is a node of one
    output like any other.
    """

    __slots__ = ("metas", "multi")
    multi: bool  # type: ignore[misc]
    saves = True
    follows = True

    def close(self, state: ModuleBackwardHookState, edges: Any, metas: Any) -> None:
        """All edges are known. edges: (node, output_nr, ...); metas: of their gradients."""
        self.saved = state
        self.hooks = None
        self.edges = edges
        self.metas = metas
        self.multi = len(metas) != 1
        if not self.multi:
            self.shape, self.dtype, _ = metas[0]

    @property
    def sums(self) -> bool:  # type: ignore[override]
        """Whether the first hook is a declared one, which runs with the accumulation."""
        hooks = () if self.saved is None else self.hooks_of(self.saved)
        return bool(hooks) and isinstance(hooks[0], DeclaredHook)

    @staticmethod
    def hooks_of(state: ModuleBackwardHookState) -> tuple[Any, ...]:
        """The hooks that fire at this barrier."""
        raise NotImplementedError

    @property
    def state(self) -> ModuleBackwardHookState:
        """The call's state. Errors: RuntimeError when a run without retain_graph released it."""
        if self.saved is None:
            raise released_error()
        return self.saved  # type: ignore[no-any-return]

    @property
    def n_outputs(self) -> int:
        return len(self.metas)

    @property
    def n_inputs(self) -> int:  # type: ignore[override]
        return len(self.metas)

    def meta(self, output_nr: int) -> TensorMeta:
        return TensorMeta._make(self.metas[output_nr])


class ModuleOutputHookNode(BarrierNode):
    """Round the outputs of a call: pre-hooks fire here with the gradients of all outputs; full
    hooks, too, when no input has an edge. transparent: a forward hook replaced the outputs, so a
    later barrier of the call fires."""

    __slots__ = ("transparent",)

    transparent: bool

    def backward(self, g: Any) -> Any:
        state, slots = self.saved, g if self.multi else (g,)
        if state is None:
            raise released_error()
        task: Any = current_task()
        first, hooks = 0, state.pre_hooks
        if hooks and isinstance(hooks[0], DeclaredHook):
            slots, first = with_leading(task, slots, () if self.transparent else hooks)
        if self.transparent:
            return slots
        run = task.local.get(state)
        if run is None:
            run = task.local[state] = CallRun()
        run.slots = slots
        if hooks or state.early_hooks or not state.input_leaves:
            return self._fire(state, task, run, slots, first)
        return slots

    backward_recorded = backward

    @property
    def completing(self) -> Any:
        """The call, when hooks wait for its region."""
        state = self.saved
        waits = state is not None and not self.transparent and state.complete_hooks
        return state if waits else None

    @staticmethod
    def hooks_of(state: ModuleBackwardHookState) -> tuple[Any, ...]:
        return state.pre_hooks

    def _fire(
        self, state: ModuleBackwardHookState, task: Any, run: CallRun, slots: Any, first: int
    ) -> Any:
        """Run the pre-hooks from the first that has not run yet."""
        if first and first == len(state.pre_hooks) and state.input_leaves and not state.early_hooks:
            run.pre_hooks_ran = True
            if not state.full_hooks:
                run.slots = None
            return slots
        layout, carrier = state.outputs, task.carrier
        tensors: Sequence[Any]
        if layout.single and state.input_leaves and not state.early_hooks:  # most calls
            run.pre_hooks_ran = True
            tensors = run.output_tensors = (carrier.lend(slots[0]),)
            tensors = state.run_pre_hooks(tensors, first) or tensors
            run.output_tensors = tensors
            if not state.full_hooks:
                run.slots = run.output_tensors = None
            return (taken_back(carrier, slots[0], tensors[0]),)
        tensors = state.outputs_seen(task, run)
        if state.pre_hooks and not run.pre_hooks_ran:
            run.pre_hooks_ran = True
            result = state.run_pre_hooks(layout.pack(tensors), first)
            if result is not None:
                run.output_tensors = tensors = layout.unpack(result, tensors)
            pairs = zip(state.output_edge_indices, slots, strict=True)
            slots = [taken_back(carrier, g, tensors[position]) for position, g in pairs]
        if state.early_hooks:
            state.run_early_hooks(layout.pack(tensors))
        if not state.input_leaves and state.full_hooks and not run.full_hooks_ran:
            run.full_hooks_ran = True
            inputs = state.inputs
            state.run_full_hooks(inputs.pack([None] * inputs.n_leaves), layout.pack(tensors))
        if not state.input_leaves or not state.full_hooks:
            run.slots = run.output_tensors = None
        return slots


class ModuleInputHookNode(BarrierNode):
    """Round the inputs of a call: full hooks fire here, when the inputs' gradients have arrived."""

    __slots__ = ()

    @staticmethod
    def hooks_of(state: ModuleBackwardHookState) -> tuple[Any, ...]:
        return state.full_hooks

    def backward(self, g: Any) -> Any:
        state, slots = self.saved, g if self.multi else (g,)
        if state is None:
            raise released_error()
        task: Any = current_task()
        run = task.local.get(state)
        first, hooks = 0, state.full_hooks
        if hooks and isinstance(hooks[0], DeclaredHook):
            fires = run is not None and run.slots is not None and not run.full_hooks_ran
            slots, first = with_leading(task, slots, hooks if fires else ())
            g = slots if self.multi else slots[0]
        if run is None or run.slots is None:
            state.skipped += bool(state.full_hooks)
            return slots
        if run.full_hooks_ran:
            return slots
        run.full_hooks_ran = True
        if first and first == len(state.full_hooks):
            run.output_tensors = run.slots = None
            return slots
        inputs, outputs, carrier = state.inputs, state.outputs, task.carrier
        if inputs is outputs and inputs.single:  # most calls: one tensor in, one out
            seen = run.output_tensors
            if seen is None:
                seen = run.output_tensors = (carrier.lend(run.slots[0]),)
            shown = run.input_tensors = (carrier.lend(g),)
            result = state.run_full_hooks(shown, seen, first)
            run.input_tensors = run.output_tensors = run.slots = None
            if result is None and shown[0]._a is g:
                return slots  # observed, not changed
            return (taken_back(carrier, g, (result or shown)[0]),)
        tensors = run.input_tensors = lent_leaves(carrier, inputs, state.input_leaves, slots)
        seen = run.output_tensors or state.outputs_seen(task, run)
        tensors = state.replaced_inputs(tensors, outputs.pack(seen), first) or tensors
        run.input_tensors = run.output_tensors = run.slots = None
        pairs = zip(state.input_leaves, slots, strict=True)
        return [taken_back(carrier, h, tensors[position]) for position, h in pairs]

    backward_recorded = backward


def with_leading(task: Any, slots: Any, hooks: tuple[Any, ...]) -> tuple[list[Any], int]:
    """Pending slots added up, in the launch that runs the declared hooks which come first; and how
    many those are. Under create_graph they run as other hooks do.
    """
    first = leading(hooks) if task.bare else []
    add = task.carrier.add
    found = []
    for g in slots:
        if g is not None and (first or type(g) is Pending):
            g = add(g, first) if type(g) is Pending else add([g], first)
        found.append(g)
    return found, len(first)


def lent_leaves(carrier: Any, layout: Any, positions: Any, slots: Any) -> list[Any]:
    """The gradients of a barrier's edges as hooks see them, one a leaf of the call."""
    tensors: list[Any] = [None] * layout.n_leaves
    for position, g in zip(positions, slots, strict=True):
        if g is not None:
            tensors[position] = carrier.lend(g)
    return tensors
