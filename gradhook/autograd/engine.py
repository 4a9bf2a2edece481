"""The backward engine: a counting pass, then nodes in ready order; everything a run changes lives
in its GraphTask.

A node runs when all its gradients have arrived; among ready nodes the highest sequence number
first, leaves before all. Gradients in flight are what the carrier says (bare arrays, or Tensors
under create_graph); None: nothing arrived.
Source of the order and of `inputs=`: PyTorch's engine (autograd/engine.cpp), HOOKS.md B0.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from heapq import heappop, heappush, heappushpop
from typing import Any

from gradhook.autograd import node_hooks, node_streams
from gradhook.autograd.binding import make
from gradhook.autograd.completion import completion_of_run
from gradhook.autograd.graph import AccumulateGrad, Node
from gradhook.autograd.graph_task import Capture as Capture
from gradhook.autograd.graph_task import GraphTask as GraphTask
from gradhook.autograd.graph_task import Pending, Slots, _current, deliver_all
from gradhook.autograd.graph_task import current_task as current_task
from gradhook.autograd.graph_task import queue_callback as queue_callback
from gradhook.autograd.graph_task import running_carrier as running_carrier
from gradhook.autograd.guard import Guard, active_guard
from gradhook.modes import get_modes, set_modes, with_grad
from gradhook.native.buffers import Buffers

FLUSH_COUNT, FLUSH_BYTES = 8, 64 << 20
_active: list[GraphTask] = []
_active_lock = threading.Lock()


def run(roots: list[tuple[Node, int, Any]], task: GraphTask) -> None:
    """Send the roots' gradients through the graph. roots: (node, output_nr, gradient), gradients
    fit their outputs.

    Errors: what a formula or hook raises, with a note that names the node; the task's state is
    dropped and .grads accumulated so far stay.
    """
    outer_modes, task.outer = get_modes(), _current.get()
    _current.set(task)
    set_modes(with_grad(outer_modes, task.carrier.recording))
    with _active_lock:
        _active.append(task)
        if len(_active) > 1:
            for t in _active:
                t.shared = True
    try:
        task.roots = tuple({node: None for node, _, _ in roots})
        _count(task, task.roots)
        task.streams = node_streams.streams_of_run(task, roots)
        anomaly = active_guard()
        if anomaly is not None:
            task.guard = Guard(anomaly.sync)
        task.completion = completion_of_run(task)
        if Buffers.make is None:
            _execute(task, roots)
        else:  # NumPy's memory comes from the pool meanwhile
            Buffers.make(_execute_all, (task, roots))
        task.node = None
        if task.streams is not None:
            task.streams.finish()
        if task.guard is not None:
            task.guard.finish()
        for callback in task.callbacks:
            callback()
        if task.deliveries:
            deliver_all(task.deliveries)
    finally:
        if task.streams is not None:
            task.streams.finish()
        with _active_lock:
            _active.remove(task)
        task.entries.clear()
        task.pending.clear()
        task.local.clear()
        set_modes(outer_modes)
        _current.set(task.outer)


def _execute_all(task: GraphTask, roots: list[tuple[Node, int, Any]]) -> None:
    """`_execute` as a Python function, which it is not in the compiled core."""
    _execute(task, roots)


def _count(task: GraphTask, roots: Iterable[Node]) -> None:
    """Each reached node's number of incoming edges, without recursion."""
    pending = task.pending
    stack = list(roots)
    for node in stack:
        pending[node] = 0
    while stack:
        edges = stack.pop().edges
        while len(edges) == 2:  # a chain
            node = edges[0]
            if node in pending:
                pending[node] += 1
                edges = ()
            else:
                pending[node] = 1
                edges = node.edges
        for node in edges[::2]:
            if node in pending:
                pending[node] += 1
            else:
                pending[node] = 1
                if node.edges:
                    stack.append(node)


def restrict(task: GraphTask, roots: list[Node], targets: set[Node], run_targets: bool) -> None:
    """Only nodes on a path to a target run (`inputs=`); the targets themselves only with
    `run_targets` (backward).
    """
    needed: dict[Node, bool] = {}
    stack: list[tuple[Node, bool]] = [(r, False) for r in roots]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            nexts = node.edges[::2]
            needed[node] = any(needed[n] or n in targets for n in nexts) or (
                run_targets and node in targets
            )
        elif node not in needed:
            needed[node] = False
            stack.append((node, True))
            stack.extend((n, False) for n in node.edges[::2] if n not in needed)
    task.execute = {node for node, yes in needed.items() if yes}


def _join(task: GraphTask, have: Any, g: Any) -> Any:
    """A second gradient for a slot: keep both, to be summed by one kernel; sum when there are many
    or large ones.
    """
    if type(have) is not Pending:
        have = Pending((have,))
    have.append(g)
    if task.streams is not None:  # summed on the stream of the node, when all have arrived
        return have
    carrier = task.carrier
    if len(have) >= FLUSH_COUNT or len(have) * carrier.array(g).nbytes > FLUSH_BYTES:
        have = Pending((carrier.add(have),))
    return have


def _deliver(task: GraphTask, node: Node, nr: int, g: Any) -> None:
    """Put a conforming gradient into the node's entry."""
    entries = task.entries
    if not node.multi:
        have = entries.get(node)
        if have is None:
            entries[node] = g
        else:
            entries[node] = _join(task, have, g)
            task.owned.add(node)
        return
    slots = entries.get(node)
    if slots is None:
        slots = entries[node] = Slots([None] * node.n_outputs)
    slots[nr] = g if slots[nr] is None else _join(task, slots[nr], g)


def _execute(task: GraphTask, roots: list[tuple[Node, int, Any]]) -> None:
    pending, entries, owned, carrier = task.pending, task.entries, task.owned, task.carrier
    keep = task.keep
    bare = task.bare
    asked = (task.streams, task.guard, task.completion)
    special = asked != (None, None, None)  # every node is visited
    plain = task.plain = not task.captures and task.execute is None and not special
    visit = _visit_specially if special else _visit
    kind = type(roots[0][2]) if plain else None  # of a gradient that needs no closer look
    chains = bare and plain  # along a chain the gradient goes straight on
    heap: list[tuple[int, Node]] = []
    for node, nr, g in roots:
        _deliver(task, node, nr, g)
    for node in task.roots:
        if not pending[node]:
            heappush(heap, (-node.seq, node))
    try:
        while heap:
            node = heappop(heap)[1]
            g = entries.pop(node, None)
            while True:
                if node.hooks is None and type(g) is kind:
                    if node.leaf:
                        grads: Any = _accumulate(task, node, g, node in task.owned)
                    else:
                        grads = node.backward(g) if bare else node.backward_recorded(g)
                    if node.saves and not keep:
                        if task.shared:
                            _release(task, node)
                        else:
                            node.saved = None
                else:
                    grads = visit(task, node, g)
                del pending[node]
                edges = node.edges
                if len(edges) == 2 and chains and grads and not heap and node.hooks is None:
                    following = edges[0]
                    g = grads[0]
                    if (
                        pending[following] == 1
                        and g is not None
                        and not following.multi
                        and following not in entries
                    ):
                        shape = g.shape
                        if shape != following.shape or g.dtype is not following.dtype or not shape:
                            g = carrier.conform(g, following.shape, following.dtype)
                        if following.leaf and _is_owned(g, grads[0], node.fresh, 0, True):
                            owned.add(following)
                        node = following
                        continue
                candidate = _spread(task, node, grads, heap) if edges else None
                if candidate is None:
                    break
                node = heappushpop(heap, (-candidate.seq, candidate))[1] if heap else candidate
                g = entries.pop(node, None)
        if task.completion is not None:
            task.completion.fire(task)
    except BaseException as error:
        error.add_note(f"in the backward of {node.name()}, graph task {task.id}")
        raise


def _is_owned(h: Any, a: Any, fresh: tuple[bool, ...], k: int, bare: bool) -> bool:
    """Whether nobody else holds this gradient: its formula or `conform` (which had the array `a`)
    allocated it, and no hook saw it.
    """
    found = h if bare else h._a
    if found is a:
        return bool(fresh) and fresh[k]
    if found.base is a and found.nbytes == a.nbytes:  # reshaped
        return bool(fresh) and fresh[k]
    return found.base is None or bool(found.size < a.size)  # a real part is a view


def _spread(task: GraphTask, node: Node, grads: Any, heap: list[tuple[int, Node]]) -> Node | None:
    """Deliver a node's gradients along its edges; returns one node that became ready, the others
    go to the heap.
    """
    pending, entries, bare, plain = task.pending, task.entries, task.bare, task.plain
    edges = node.edges
    fresh: Any = node.fresh if node.hooks is None else ()  # post-hooks may keep what they saw
    if node is task.late:
        task.late = None
        grads = node_hooks.after(task, node, node.hook_set(), grads, None)
    candidate: Node | None = None
    k = 0
    for h in grads or (None,) * (len(edges) // 2):
        following = edges[2 * k]
        left = pending[following] - 1
        if h is not None:
            a = h if bare else h._a
            if following.multi:
                nr = edges[2 * k + 1]
                meta = following.meta(nr)
                h = task.carrier.conform(h, meta.shape, meta.dtype)
                _deliver(task, following, nr, h)
            else:
                shape = a.shape
                if shape != following.shape or a.dtype is not following.dtype or not shape:
                    h = task.carrier.conform(h, following.shape, following.dtype)
                if following in entries:
                    _deliver(task, following, 0, h)
                elif following.leaf or not plain:
                    owned = (fresh and fresh[k]) if h is a else _is_owned(h, a, fresh, k, bare)
                    if plain and not left and following.hooks is None:  # a leaf runs at once
                        slot = following.slot
                        if owned and bare and slot.post_accumulate is None:
                            with slot.lock:
                                have = slot.grad
                                slot.grad = (
                                    make(h)
                                    if have is None
                                    else task.carrier.accumulate(have, h, True)
                                )
                        else:
                            _accumulate(task, following, h, owned)
                        del pending[following]
                        k += 1
                        continue
                    entries[following] = h
                    if owned and not (task.streams is not None and task.streams.conformed):
                        task.owned.add(following)
                else:
                    entries[following] = h
        k += 1
        pending[following] = left
        if left:
            continue
        if candidate is None:
            candidate = following
        else:
            heappush(heap, (-following.seq, following))
    return candidate


def _visit_specially(task: GraphTask, node: Node, g: Any) -> Any:
    """`_visit` on the stream and device of the node, between the waits and events that needs, with
    a look at the gradients for detect_anomaly, and with the hooks that waited for nodes before it.
    """
    streams, saved, completion = task.streams, node.saved, task.completion
    if completion is not None and completion.due and not node.leaf:
        completion.fire(task)
    if streams is not None:
        streams.enter(node, g)
    grads = _visit(task, node, g)
    if task.guard is not None:
        task.guard.check(task, node, grads)
    if completion is not None:
        completion.ran(node)
    return grads if streams is None else streams.leave(node, grads, (g, saved))


def _visit(task: GraphTask, node: Node, g: Any) -> Any:
    """A node with hooks, captures, restrictions, several outputs, or several gradients for one."""
    carrier, hooks = task.carrier, node.hooks
    task.node = node
    runs = task.execute is None or node in task.execute
    lent = None  # the leaf's gradient, if nobody but hooks holds it
    if hooks is not None and (runs or node in task.captures):
        if node.leaf and node in task.owned and not hooks.declared():
            lent = g = node_hooks.summed(carrier, g)
        task.owned.discard(node)
        g = node_hooks.before(task, node, hooks, g)
    elif not node.sums or node in task.captures:
        g = node_hooks.summed(carrier, g)
    if node in task.captures:
        node_hooks.capture(task, node, g)
    if not runs:
        return None
    if hooks is not None and hooks.pre:
        g = node_hooks.pre(task, hooks, g)
    grads: Any = None
    if g is not None:
        grads = (
            _accumulate(task, node, g, node in task.owned, g is lent)
            if node.leaf
            else carrier.apply(node, g)
        )
    elif task.compat and node.leaf and node.slot.post_accumulate:  # type: ignore[attr-defined]
        node_hooks.post_accumulate(node)
    task.late = None  # an unpack hook registered the node's first hook while it ran
    hooks = node.hooks
    if hooks is not None and hooks.post:
        grads = node_hooks.after(task, node, hooks, grads, g)
    if node.saves and not task.keep:
        _release(task, node)
    return grads


def _release(task: GraphTask, node: Node) -> None:
    """Free what the node saved, unless another unfinished run (an outer one, another thread's)
    still needs it.
    """
    if not any(t is not task and t.still_needs(node) for t in tuple(_active)):
        node.saved = None


def _accumulate(
    task: GraphTask, node: AccumulateGrad | Any, g: Any, owned: bool, lent: bool = False
) -> tuple[()]:
    """Add to a leaf's .grad; adopt the buffer when nobody holds it but, as `lent`, hooks. Then its
    post-accumulate hooks.
    """
    slot = node.slot
    with slot.lock:
        if slot.grad is None and (owned or lent):
            slot.grad = task.carrier.wrap(g) if owned else task.carrier.adopt(g)
        else:
            slot.grad = task.carrier.accumulate(slot.grad, g, owned)
    if slot.post_accumulate:
        node_hooks.post_accumulate(node)
    return ()
