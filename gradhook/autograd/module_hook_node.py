"""The two barriers round a module call: nodes in the graph that fire module backward hooks.

No op, no kernel, no view relation: the input barrier is a Node whose edges are the inputs', the
output barrier one whose edges are the outputs'. Both share one immutable
`ModuleBackwardHookState`; what changes in a backward run lives in the run's GraphTask. Contract:
docs of HOOKS.md A2 B3, B4, B7, B10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradhook.autograd import engine
from gradhook.autograd.graph import Node, TensorMeta, next_sequence_nr, released_error
from gradhook.autograd.node_hooks import Lending, checked
from gradhook.storage import Storage

if TYPE_CHECKING:
    from gradhook.autograd.engine import GraphTask

Runner = Callable[..., Any]


class CallRun:
    """What one backward run knows of one module call. tensors: the output gradients as hooks see
    them.
    """

    __slots__ = ("full_hooks_ran", "input_tensors", "output_tensors", "pre_hooks_ran")

    def __init__(self) -> None:
        self.pre_hooks_ran = self.full_hooks_ran = False
        self.input_tensors: list[Any] | None = None
        self.output_tensors: list[Any] | None = None


class ModuleBackwardHookState:
    """One module call's backward hooks, shared by its two barriers and owned by them; immutable
    after the call.

    pre_runner(grad_outputs), full_runner(grad_inputs, grad_outputs): fan out to every registered
    hook, each may return replacements. n_inputs, n_outputs: positions of the call, with or without
    an edge.
    input_arg_indices, input_metas:
    per input edge, its argument position (a keyword's name) and what a gradient looks like.
    output_metas: per output position; output_edge_indices: per output-barrier edge, its output
    position.
    pre_hooks_ran, full_hooks_ran, grad_inputs, grad_outputs: of the current backward run (outside
    one: False, None).
    skipped: passes that entered the call other than through an output (double backward), which are
    no event.
    """

    __slots__ = (
        "__weakref__", "full_runner", "input_arg_indices", "input_leaves", "input_metas",
        "n_input_leaves", "n_inputs",
        "n_outputs", "output_edge_indices", "output_metas", "pre_runner", "skipped",
    )  # fmt: skip

    def __init__(
        self,
        pre_runner: Runner | None,
        full_runner: Runner | None,
        n_inputs: int,
        n_input_leaves: int,
    ) -> None:
        self.pre_runner = pre_runner
        self.full_runner = full_runner
        self.n_inputs = n_inputs
        self.n_input_leaves = n_input_leaves
        self.n_outputs = 0
        self.input_arg_indices: tuple[int | str, ...] = ()
        self.input_leaves: tuple[int, ...] = ()
        self.input_metas: tuple[TensorMeta, ...] = ()
        self.output_metas: tuple[TensorMeta | None, ...] = ()
        self.output_edge_indices: tuple[int, ...] = ()
        self.skipped = 0

    def _run(self) -> CallRun | None:
        task = engine.current_task()
        return None if task is None else task.local.get(self)

    @property
    def pre_hooks_ran(self) -> bool:
        run = self._run()
        return run is not None and run.pre_hooks_ran

    @property
    def full_hooks_ran(self) -> bool:
        run = self._run()
        return run is not None and run.full_hooks_ran

    @property
    def grad_outputs(self) -> list[Storage | None] | None:
        run = self._run()
        return None if run is None else _storages(run.output_tensors)

    @property
    def grad_inputs(self) -> list[Storage | None] | None:
        run = self._run()
        return None if run is None else _storages(run.input_tensors)


def _storages(tensors: list[Any] | None) -> list[Storage | None] | None:
    return None if tensors is None else [None if t is None else t.storage() for t in tensors]


class BarrierNode(Node):
    """A barrier: gradients pass through, module hooks fire. metas: a TensorMeta an edge.

    The call's state is what it saves, so both barriers let go of it (and of its runners) as nodes
    do of saved tensors.
    """

    __slots__ = ("metas",)
    multi = True
    saves = True

    def __init__(self, state: ModuleBackwardHookState) -> None:
        self.saved = state
        self.seq = next_sequence_nr()
        self.hooks = None
        self.edges = ()
        self.metas: list[TensorMeta] = []

    @property
    def state(self) -> ModuleBackwardHookState:
        """The call's state. Errors: RuntimeError when it was released by a run without
        retain_graph.
        """
        if self.saved is None:
            raise released_error()
        return self.saved  # type: ignore[no-any-return]

    def add(self, node: Node, nr: int, meta: TensorMeta) -> int:
        """One more edge; returns its output_nr."""
        self.edges = (*self.edges, node, nr)
        self.metas.append(meta)
        return len(self.metas) - 1

    @property
    def n_outputs(self) -> int:
        return len(self.metas)

    @property
    def n_inputs(self) -> int:  # type: ignore[override]
        return len(self.metas)

    def meta(self, output_nr: int) -> TensorMeta:
        return self.metas[output_nr]

    def backward(self, g: Any) -> tuple[Any, ...]:
        task = engine.current_task()
        assert task is not None
        return tuple(self.visit(task, g))

    backward_recorded = backward

    def visit(self, task: GraphTask, slots: list[Any]) -> list[Any]:
        """Fire the hooks due here; returns the gradients to pass on."""
        raise NotImplementedError


class ModuleOutputHookNode(BarrierNode):
    """Round the outputs of a call: pre-hooks fire here with the gradients of all outputs; and full
    hooks, too, when no input has an edge. transparent: a forward hook replaced the outputs, a
    later barrier of the state fires."""

    __slots__ = ("transparent",)

    def __init__(self, state: ModuleBackwardHookState) -> None:
        super().__init__(state)
        self.transparent = False

    def visit(self, task: GraphTask, slots: list[Any]) -> list[Any]:
        state = self.state
        if self.transparent:
            return slots
        run = task.local.get(state)
        if run is None:
            run = task.local[state] = CallRun()
        positions = state.output_edge_indices
        values: list[Any] = [None] * len(state.output_metas)
        for position, g in zip(positions, slots, strict=True):
            values[position] = g
        lending = Lending(task, values)
        run.output_tensors = lending.tensors
        if state.pre_runner is not None and not run.pre_hooks_ran:
            run.pre_hooks_ran = True
            state.pre_runner(lending, state.output_metas)
        if not state.input_metas:
            self._fire_full(run, lending)
        back = lending.back()
        if state.full_runner is None or not state.input_metas:
            run.output_tensors = None
        return [back[position] for position in positions]

    def _fire_full(self, run: CallRun, outputs: Lending) -> None:
        state = self.state
        if state.full_runner is not None and not run.full_hooks_ran:
            run.full_hooks_ran = True
            inputs = Lending.of_none(outputs.carrier, state.n_input_leaves)
            state.full_runner(inputs, outputs.tensors, [None] * state.n_input_leaves)


class ModuleInputHookNode(BarrierNode):
    """Round the inputs of a call: full hooks fire here, when all gradients of the inputs have
    arrived.
    """

    __slots__ = ()

    def visit(self, task: GraphTask, slots: list[Any]) -> list[Any]:
        state = self.state
        run = task.local.get(state)
        if run is None or run.output_tensors is None:
            state.skipped += state.full_runner is not None
            return slots
        if state.full_runner is None or run.full_hooks_ran:
            return slots
        run.full_hooks_ran = True
        values: list[Any] = [None] * state.n_input_leaves
        metas: list[TensorMeta | None] = [None] * state.n_input_leaves
        for position, g, meta in zip(state.input_leaves, slots, state.input_metas, strict=True):
            values[position], metas[position] = g, meta
        lending = Lending(task, values)
        run.input_tensors = lending.tensors
        state.full_runner(lending, run.output_tensors, metas)
        back = lending.back()
        run.input_tensors = run.output_tensors = None
        return [back[position] for position in state.input_leaves]


def replaced(
    lending: Lending, hook: Any, values: list[Any], metas: Any, where: Callable[[int], str]
) -> None:
    """Check what a hook returned (one entry a leaf) against the metas, then let it replace the
    gradients.
    """
    lending.replace(
        [checked(hook, v, m, where(k)) for k, (v, m) in enumerate(zip(values, metas, strict=True))]
    )
