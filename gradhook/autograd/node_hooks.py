"""Running the hooks of one node, in the order of HOOKS.md B0.1, and the one validator of what
hooks return.

Tensor hooks, then capture and retain_grad, then node pre-hooks, then the node (a leaf:
accumulation, then its post-accumulate hooks), then node post-hooks.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from gradhook import dtypes
from gradhook.autograd.binding import Binding, make
from gradhook.autograd.graph import Node, NodeHooks, TensorMeta
from gradhook.autograd.graph_task import Pending, Slots, current_task
from gradhook.autograd.hook_notes import hook_name, noted
from gradhook.hooks.declared import is_declared
from gradhook.hooks.registry import HookTable

if TYPE_CHECKING:
    from gradhook.autograd.carriers import Carrier
    from gradhook.autograd.engine import GraphTask


def checked(hook: Any, result: Any, meta: TensorMeta | None, where: str) -> Any:
    """A gradient that a hook returned, as a Tensor or None, fit for its slot. Metadata only, never
    a device read.

    meta: what the gradient must look like (None: the slot takes no gradient). where: the slot in
    words.
    Errors: TypeError for what is no Tensor, RuntimeError for another shape, dtype or device.
    """
    if result is None:
        return None
    name = hook_name(hook)
    if not isinstance(result, Binding.tensor):
        raise TypeError(
            f"expected Variable, but hook returned '{type(result).__name__}' (hook '{name}', "
            f"{where}); "
            "return a Tensor, or None to keep the gradient"
        )
    if meta is None:
        raise RuntimeError(
            f"can't replace a None gradient with a non-None value (hook '{name}', {where} takes "
            f"none)"
        )
    if tuple(result._a.shape) != meta.shape:
        raise RuntimeError(
            f"hook '{name}' has changed the size of value ({where}: expected {tuple(meta.shape)}, "
            f"got {tuple(result._a.shape)})"
        )
    if result._a.dtype != meta.dtype:
        was, got = dtypes.of(meta.dtype).title, dtypes.of(result._a.dtype).title
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was gradhook.{was}Tensor got "
            f"gradhook.{got}Tensor) ({where})"
        )
    if meta.array_type is not object and type(result._a) is not meta.array_type:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {meta.array_type.__module__} "
            f"tensor got "
            f"{type(result._a).__module__} tensor) ({where})"
        )
    return result


def checked_tuple(
    hook: Any, result: Any, metas: list[TensorMeta | None], where: str
) -> list[Any] | None:
    """What a hook over several slots returned: None, or one Tensor or None a slot."""
    if result is None:
        return None
    if isinstance(result, Binding.tensor) and len(metas) == 1:
        result = (result,)
    if not isinstance(result, tuple | list):
        raise TypeError(
            f"expected tuple, but hook returned '{type(result).__name__}' (hook "
            f"'{hook_name(hook)}', {where})"
        )
    if len(result) != len(metas):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values "
            f"(got {len(result)}, but expected {len(metas)}) ({where})"
        )
    return [
        checked(hook, r, m, f"{where}[{k}]")
        for k, (r, m) in enumerate(zip(result, metas, strict=True))
    ]


class Lending:
    """Gradients as the Tensors that hooks see: lent once, kept over the hooks of one place, taken
    back at the end.
    """

    def __init__(self, task: GraphTask, gradients: list[Any]) -> None:
        self.carrier: Carrier = task.carrier
        self.gradients = gradients
        self.tensors: list[Any] = [None if g is None else self.carrier.lend(g) for g in gradients]

    def replace(self, results: list[Any] | None) -> None:
        """A hook's checked results; a gradient stays the one object while nothing replaces it."""
        for k, r in enumerate(results or ()):
            if r is None or r is not self.tensors[k]:
                self.tensors[k] = None if r is None else self.carrier.lend(self.carrier.take(r))

    def back(self) -> list[Any]:
        """The gradients as they are now: the same objects where no hook replaced or edited them."""
        pairs = zip(self.gradients, self.tensors, strict=True)
        return [taken_back(self.carrier, g, t) for g, t in pairs]


def taken_back(carrier: Carrier, g: Any, t: Any) -> Any:
    """A gradient after hooks saw it as `t`: `g` itself unless one replaced or edited it."""
    if t is None:
        return None
    if not carrier.recording:
        return g if t._a is g else carrier.take(t)
    if g is not None and t._a is g._a and t._node is g._node:
        return g  # else g.detach(), or a Function's view of g: the same array
    return carrier.take(t)


def _meta(task: GraphTask, node: Node, nr: int, g: Any) -> TensorMeta | None:
    """What a hook may return for the gradient `g` of an output; None: nothing."""
    if g is None:
        return None if task.compat else node.meta(nr)
    return node.meta(nr)._replace(array_type=type(task.carrier.array(g)))


def summed(carrier: Carrier, g: Any) -> Any:
    """The gradient of a node (of each output), with what is pending added up."""
    if type(g) is Pending:
        return carrier.add(g)
    if type(g) is Slots:
        for s in g:
            if type(s) is Pending:  # what came stays in g, which a stream may not be done with
                return [carrier.add(s) if type(s) is Pending else s for s in g]
    return g


def before(task: GraphTask, node: Node, hooks: NodeHooks, g: Any) -> Any:
    """Tensor hooks, then retain_grad, for each output; what is pending is added up here, too."""
    if not node.multi:
        return _before_output(task, node, hooks, 0, g)
    gradients = [None] * node.n_outputs if g is None else g
    gradients = [_before_output(task, node, hooks, nr, h) for nr, h in enumerate(gradients)]
    return gradients if any(h is not None for h in gradients) else None


def _before_output(task: GraphTask, node: Node, hooks: NodeHooks, nr: int, g: Any) -> Any:
    """`before` for one output."""
    table = hooks.tensor.get(nr)
    if table:
        found = table.snapshot()
        if table.declared and task.bare:
            g = _with_declared(task, node, nr, table, g)
        else:
            g = _called(task, node, nr, table, found, summed(task.carrier, g))
    if type(g) is Pending:
        g = task.carrier.add(g)
    if hooks.retains and g is not None and (slot := hooks.retains.get(nr)) is not None:
        slot.grad = task.carrier.accumulate(slot.grad, g, False)
    return g


def _with_declared(task: GraphTask, node: Node, nr: int, table: HookTable, g: Any) -> Any:
    """The gradient of one output after hooks some of which are declared: those side by side run as
    one launch, the first together with the accumulation.
    """
    group: Any
    for declared, group in groupby(table.snapshot(), is_declared):
        if not declared:
            g = _called(task, node, nr, table, tuple(group), summed(task.carrier, g))
        elif g is not None:
            g = task.carrier.add(g if type(g) is Pending else [g], list(group))
    return g


def _called(
    task: GraphTask, node: Node, nr: int, table: HookTable, hooks: tuple[Any, ...], g: Any
) -> Any:
    """The gradient of one output after Python hooks."""
    carrier = task.carrier
    shown = None if g is None else carrier.lend(g)
    hook: Any = None
    try:
        for hook in hooks:
            result = hook(shown)
            if result is not None and result is not shown:
                meta = _meta(task, node, nr, g)
                checked(hook, result, meta, f"gradient of output {nr} of {node.name()}")
                shown = carrier.lend(carrier.take(result))
    except BaseException as error:
        noted(error, "tensor hook", hook, (table,), f"output {nr}", task, node.name())
        raise
    return taken_back(carrier, g, shown)


def capture(task: GraphTask, node: Node, g: Any) -> None:
    """Keep the gradients that `inputs=` asked for, as they are after the tensor hooks."""
    for wanted in task.captures[node]:
        h = g[wanted.nr] if node.multi and g is not None else g
        if h is None:
            continue
        if wanted.tensor is not None:
            slot = wanted.tensor._slot_made()
            slot.grad = task.carrier.accumulate(slot.grad, h, False)
        else:
            wanted.value = h if node in task.owned else task.carrier.copy(h)


def pre(task: GraphTask, hooks: NodeHooks, g: Any) -> Any:
    """Node pre-hooks: `hook(grad_outputs)`."""
    node = task.node
    if not hooks.pre or node is None:
        return g
    gradients = (g if g is not None else [None] * node.n_outputs) if node.multi else [g]
    lending = Lending(task, gradients)
    metas = [_meta(task, node, k, h) for k, h in enumerate(gradients)]
    _replaced(task, node, hooks.table("pre"), "node pre-hook", lending, metas, (), "grad_outputs")
    found = lending.back()
    if node.multi:
        return found if any(h is not None for h in found) else None
    return found[0]


def after(task: GraphTask, node: Node, hooks: NodeHooks, grads: Any, g: Any) -> Any:
    """Node post-hooks: `hook(grad_inputs, grad_outputs)`, an entry an input, None where none
    flows.
    """
    edges = node.edges
    inputs: list[Any] = [None] * max(node.n_inputs, len(edges) // 2)
    metas: list[TensorMeta | None] = [None] * len(inputs)
    positions = (
        node.edge_positions if node.edge_positions is not None else tuple(range(len(edges) // 2))
    )
    for k, position in enumerate(positions):
        h = grads[k] if grads else None
        target = edges[2 * k].meta(edges[2 * k + 1])
        metas[position] = target
        if h is not None:
            inputs[position] = task.carrier.conform(h, target.shape, target.dtype)
    outputs = g if node.multi and g is not None else [None] * node.n_outputs if node.multi else [g]
    seen = tuple([None if h is None else task.carrier.lend(h) for h in outputs])
    lending = Lending(task, inputs)
    _replaced(task, node, hooks.table("post"), "node hook", lending, metas, (seen,), "grad_inputs")
    found = lending.back()
    return tuple([found[position] for position in positions])


def _replaced(
    task: GraphTask, node: Node, table: HookTable, kind: str, lending: Lending,
    metas: list[TensorMeta | None], others: tuple[Any, ...], slots: str,
) -> None:  # fmt: skip
    """Node hooks of one kind on the gradients of `lending`. others: what a hook gets after them."""
    hook: Any = None
    try:
        for hook in table.snapshot():
            result = hook(tuple(lending.tensors), *others)
            if result is not None and not isinstance(result, tuple):
                raise TypeError(
                    f"expected tuple, but hook returned '{type(result).__name__}' (hook "
                    f"'{hook_name(hook)}')"
                )
            lending.replace(checked_tuple(hook, result, metas, f"{slots} of {node.name()}"))
    except BaseException as error:
        noted(error, kind, hook, (table,), "", task, node.name())
        raise


def post_accumulate(node: Any) -> None:
    """`hook(param)` after .grad was accumulated. Errors: RuntimeError when a hook returns
    something else than None.
    """
    slot = node.slot
    leaf = slot.leaf() if slot.leaf is not None else None
    if leaf is None:  # the tensor object died, its accumulator lives: a new object stands for it
        leaf = make(slot.array)
        leaf._node, leaf._slot = node, slot
    task = current_task()
    if task is not None:
        task.node = node
    hook: Any = None
    try:
        for hook in slot.post_accumulate.snapshot():
            result = hook(leaf)
            if result is not None and result is not leaf:
                raise RuntimeError(
                    "Tensor post accumulate grad hooks should return None. "
                    f"(hook '{hook_name(hook)}' returned {type(result).__name__})"
                )
    except BaseException as error:
        title = f"a leaf of shape {tuple(leaf._a.shape)}"
        noted(error, "post-accumulate hook", hook, (slot.post_accumulate,), title, task)
        raise
