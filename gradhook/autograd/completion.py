"""Hooks that wait for several nodes of a run: `when="complete"` hooks, for every node made within a
module call, and params-ready hooks, for the accumulators of a module's parameters.

Which nodes those are is counted once, when the run starts, over the nodes it reaches. A run in a
process without such hooks pays one test. Contract: HOOKS.md A2 B5, B19.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from gradhook.autograd.graph import Node
from gradhook.autograd.hook_notes import noted

if TYPE_CHECKING:
    from gradhook.autograd.graph_task import GraphTask


class Wanted:
    """What this process registered such hooks for. calls: `when="complete"` hooks at all; modules:
    those with params-ready hooks.
    """

    calls: ClassVar[bool] = False
    modules: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()


class CallRegion:
    """Nodes of one module call that are still to run."""

    def __init__(self, state: Any, left: int) -> None:
        self.state, self.left = state, left

    def fire(self, task: GraphTask) -> None:
        """Every node of the call has run: its complete hooks, if its outputs got gradients."""
        run = task.local.get(self.state)
        if run is not None:
            self.state.run_complete_hooks(task, run)


class ParamsRegion:
    """Accumulators of a module's parameters that are still to run. params: their parameters."""

    def __init__(self, module: Any, params: tuple[Any, ...], left: int) -> None:
        self.module, self.params, self.left = module, params, left

    def fire(self, task: GraphTask) -> None:
        """Every gradient of the pass is in .grad. Errors: RuntimeError for a hook that returns a
        value.
        """
        table = self.module._params_ready_hooks
        for hook in table.snapshot():
            try:
                result = hook(self.module, self.params)
                if result is not None:
                    raise RuntimeError(
                        f"params-ready hook returned a {type(result).__name__}, expected None"
                    )
            except BaseException as error:
                title = f"<{type(self.module).__name__}>"
                noted(error, "params-ready hook", hook, (table,), title, task)
                raise


class Completion:
    """waiting: node -> regions it belongs to; due: regions all of whose nodes have run."""

    def __init__(self) -> None:
        self.waiting: dict[Node, list[CallRegion | ParamsRegion]] = {}
        self.due: list[CallRegion | ParamsRegion] = []

    def add(self, region: CallRegion | ParamsRegion, nodes: list[Node]) -> None:
        """The region waits for these nodes."""
        for node in nodes:
            self.waiting.setdefault(node, []).append(region)

    def ran(self, node: Node) -> None:
        """A node has run, with its hooks."""
        for region in self.waiting.pop(node, ()):
            region.left -= 1
            if not region.left:
                self.due.append(region)

    def fire(self, task: GraphTask) -> None:
        """Call the hooks that are due: those of calls before those of parameters. It is asked for
        before a node runs that is no leaf, so gradients that were ready are in .grad.
        """
        if self.due and task.streams is not None:
            task.streams.join()
        while self.due:
            of_calls = [r for r in self.due if isinstance(r, CallRegion)]
            region = of_calls[0] if of_calls else self.due[0]
            self.due.remove(region)
            region.fire(task)


def completion_of_run(task: GraphTask) -> Completion | None:
    """What waits for nodes of this run, None for nothing."""
    if not Wanted.calls and not Wanted.modules:
        return None
    completion = Completion()
    pending = task.pending
    regions: dict[Any, list[Node]] = {}  # by module, nodes of its calls
    if Wanted.calls:
        calls = [node.completing for node in pending if node.completing is not None]
        by_number = {node.seq: node for node in pending} if calls else {}
        for state in calls:
            nodes = [by_number[n] for n in state.region if n in by_number]
            completion.add(CallRegion(state, len(nodes)), nodes)
            regions.setdefault(state.module, []).extend(nodes)
    for module in tuple(Wanted.modules):
        if module._params_ready_hooks:
            _add_params(completion, task, module, regions.get(module, []))
    return completion if completion.waiting else None


def _add_params(completion: Completion, task: GraphTask, module: Any, calls: list[Node]) -> None:
    """A region of the accumulators that this run executes, and of the module's calls that have
    complete hooks, which come first.
    """
    due = [
        p
        for p in module.parameters()
        if (node := p._node) is not None
        and node in task.pending
        and (task.execute is None or node in task.execute)
    ]
    if due:
        nodes = list(dict.fromkeys([*(p._node for p in due), *calls]))
        completion.add(ParamsRegion(module, tuple(due), len(nodes)), nodes)
