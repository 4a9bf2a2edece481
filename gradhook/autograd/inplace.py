"""In-place ops: the op's recorder on the old value, its result written into the memory, history
rebased.

Source: PyTorch's rules (leaf, view of a leaf, overlapping memory, views of no_grad or of several
outputs), with its error texts as first sentences.
"""

from __future__ import annotations

from typing import Any

from gradhook import backend, dtypes, memory
from gradhook.autograd import record
from gradhook.autograd.binding import Binding, cell_of, make_at
from gradhook.autograd.hooked_views import tend_hooked_views
from gradhook.autograd.views import (
    CUSTOM,
    HOOK_NODE,
    HOOKED,
    MULTI_OUTPUT,
    UNRECORDED,
    CopySlices,
    View,
    edge_of,
    move_retains,
    refresh,
    replay_array,
)
from gradhook.modes import get_modes
from gradhook.ops.table import Op
from gradhook.storage import INFERENCE, bump_cell, is_lent

_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def inplace(row: Op, target: Any, *inputs: Any, **attributes: Any) -> Any:
    """`target.<op>_(*inputs)`: returns target.

    Errors: RuntimeError for a leaf that requires grad, overlapping memory, a result of another
    shape or of a dtype that target cannot hold; nothing is changed then.
    """
    modes = get_modes()
    unlend(target)
    if target._v is INFERENCE and not modes.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can "
            "make a clone to get a "
            "normal tensor before doing inplace update."
        )
    rebases = modes.grad and (edge_of(target) is not None or any(_needs_grad(x) for x in inputs))
    if rebases:
        check_writable(f"{row.name}_", target)
    if memory.has_internal_overlap(target._a):
        raise RuntimeError(
            f"unsupported operation: more than one element of the written-to tensor refers to a "
            f"single memory location. Please clone() the tensor before performing the operation. "
            f"({row.name}_, shape {tuple(target._a.shape)})"
        )
    itself = any(x is target for x in inputs)  # x.mul_(x): torch saves what is stale at once
    kept = target._a.copy() if rebases and (itself or _saves_target(row)) else target._a
    old = make_at(kept, target._node, target._nr)
    inputs = tuple([old if x is target else x for x in inputs])
    t = getattr(record.ops, row.name)(old, *inputs, **attributes)
    check_result(row.name, target, t)
    if rebases and t._node is None:  # an op without gradient: nothing of the old value is left
        t = record.ops.copy(old, t)
    if modes.watch is not None and modes.watch.mutation is not None:
        modes.watch.mutation.before_write(cell_of(target))
    try:
        if len(backend.Process.devices) > 1:
            with backend.place(target._a):
                target._a[...] = t._a
        else:
            target._a[...] = t._a
    except ValueError as error:  # NumPy: assignment destination is read-only
        raise RuntimeError(
            f"{row.name}_: the memory of this tensor is read-only ({error}); it was made over a "
            "read-only array; clone() it to write"
        ) from error
    cell = cell_of(target)
    if cell is not INFERENCE:
        bump_cell(cell)
    if rebases and t._node is not None:
        _rebase(target, t)
        if target._slot is not None or target._view is not None:
            tend_hooked_views(target, f"{row.name}_")
    return target


def _needs_grad(x: Any) -> bool:
    return isinstance(x, Binding.tensor) and edge_of(x) is not None


def _saves_target(row: Op) -> bool:
    name = row.inputs[0]
    return row.composite or any(
        f is not None and name in f.parameters for f in (*row.formulas.values(), *row.joints)
    )


def check_writable(writer: str, target: Any) -> None:
    """The refusals of a recorded write, in PyTorch's order: how a view was made, then leaves."""
    root, through_view = target, False
    while root._view is not None:
        _check_creation(root, root._view)
        through_view = through_view or bool(root._view.steps)
        root = root._view.base
    of_leaf = root._node is None or root._node.leaf
    if target._node is not None and (of_leaf or target._node.leaf):
        what = "a view of a leaf Variable" if through_view and of_leaf else "a leaf Variable"
        raise RuntimeError(
            f"{what} that requires grad is being used in an in-place operation. ({writer}; "
            "write under no_grad(), or on a clone())"
        )


def _check_creation(target: Any, view: View) -> None:
    node = target._node
    if view.creation == UNRECORDED:
        raise RuntimeError(
            "A view was created in no_grad mode and is being modified inplace with grad mode "
            "enabled. Given that this "
            "use case is ambiguous and error-prone, it is forbidden. Create the view and write it "
            "in the same mode."
        )
    if view.creation in (MULTI_OUTPUT, CUSTOM, HOOKED):
        name = "a custom Function" if node is None else node.name()
        name = HOOK_NODE if view.creation == HOOKED else name
        why = (
            "This view is the output of a function that returns multiple views. Such functions do "
            "not allow the output views to be modified inplace."
            if view.creation == MULTI_OUTPUT or (view.creation == HOOKED and node.n_outputs > 1)
            else "This view was created inside a custom Function (or because an input was returned "
            "as-is)."
        )
        raise RuntimeError(
            f"Output {target._nr} of {name} is a view and is being modified inplace. {why} "
            "You should replace the inplace operation by an out-of-place one."
        )


def check_result(name: str, target: Any, t: Any) -> None:
    """Whether what `name` gave can be written into target: RuntimeError for another shape, or for
    a dtype of a higher kind.
    """
    found, expected = t._a.dtype, target._a.dtype
    if _CATEGORY[found.kind] > _CATEGORY[expected.kind]:
        raise RuntimeError(
            f"result type {dtypes.of(found).title} can't be cast to the desired output type "
            f"{dtypes.of(expected).title} ({name}_; use the out-of-place op)"
        )
    if t._a.shape != target._a.shape:
        raise RuntimeError(
            f"output with shape {list(target._a.shape)} doesn't match the broadcast shape "
            f"{list(t._a.shape)} "
            f"({name}_; use the out-of-place op, or expand and clone the target first)"
        )


def _rebase(target: Any, t: Any) -> None:
    """target now is what `t` is; a view's base gets the op on its slice, and the view is refreshed
    from it.
    """
    view: View | None = target._view
    if view is None or not view.steps:
        _move(target, t._node, t._nr)
        return
    _move(view.base, CopySlices(view.base, view.steps, t._node), 0)
    refresh(target)


def rebase_to(target: Any, node: Any, nr: int) -> None:
    """target was written by a node of its own (a Function that marked it dirty), its output nr."""
    view: View | None = target._view
    if view is None or not view.steps:
        _move(target, node, nr)
    else:
        _move(view.base, CopySlices(view.base, view.steps, None, (node, nr)), 0)
        refresh(target)
    tend_hooked_views(target, node.name())


def _move(x: Any, node: Any, nr: int) -> None:
    """x's history now is (node, nr); when x stands for another tensor at a barrier, that one's,
    too.
    """
    before, before_nr = x._node, x._nr
    x._node, x._nr = node, nr
    move_retains(x, before, before_nr)
    alias: View | None = x._view
    if alias is None or alias.steps:
        return
    original = alias.base
    real: View | None = original._view
    if real is not None and real.steps:
        _move(real.base, CopySlices(real.base, real.steps, None, (node, nr)), 0)
        refresh(original)
    else:
        _move(original, node, nr)
    alias.base_node = original._node


def unlend(t: Any) -> None:
    """A gradient that a hook holds is copied before its first write; a view of one writes into its
    base's copy.
    """
    view: View | None = t._view
    if view is not None:
        unlend(view.base)
        if view.base._v is not t._v:
            t._a = replay_array(view.base._a, view.steps)
            t._v = view.base._v
        return
    cell = t._v
    if is_lent(cell):
        t._a = t._a.copy(order="K")  # views of it are views of the copy
        t._v = [cell[0], None]
