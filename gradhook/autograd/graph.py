"""Node, AccumulateGrad, what a tensor knows of its gradient, and `conform`.

Edges are a flat tuple `(node, output_nr, node, output_nr, ...)`, one pair for each input that
needs a gradient, so a recorded op makes as few objects as can be. `next_functions` shows them as
PyTorch does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gradhook import dtypes
from gradhook.autograd.numbering import numbering
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.registry import HookTable
from gradhook.later import Later, attributes
from gradhook.storage import bump

if TYPE_CHECKING:
    from gradhook.autograd.engine import GraphTask
    from gradhook.autograd.introspection import get_accumulator as get_accumulator
    from gradhook.autograd.introspection import get_gradient_edge as get_gradient_edge
    from gradhook.autograd.multi_grad import register_multi_grad_hook as register_multi_grad_hook
    from gradhook.autograd.mutation import (
        allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors,
    )
    from gradhook.autograd.save_on_cpu import save_on_cpu as save_on_cpu
    from gradhook.autograd.saved_hooks import (
        disable_saved_tensors_hooks as disable_saved_tensors_hooks,
    )
    from gradhook.autograd.saved_hooks import saved_tensors_hooks as saved_tensors_hooks
    from gradhook.autograd.watch import node_creation_hook as node_creation_hook

Edges = tuple[Any, ...]
_LEAF_SEQUENCE = 2**62
new: Callable[[type], Any] = object.__new__


class TensorMeta(NamedTuple):
    """Shape, NumPy dtype and array class of a tensor: what a gradient of it must look like."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array_type: type


def meta_of(array: Any) -> TensorMeta:
    """What a gradient of this array's tensor looks like."""
    return tuple.__new__(TensorMeta, (array.shape, array.dtype, type(array)))


class NodeHooks:
    """Hooks of one node, made on demand.

    tensor: output_nr -> hooks of the tensor at that output; retains: output_nr -> GradientSlot
    that keeps a copy; pre, post: node hooks. stream: the CUDA stream it was recorded on and runs
    on, None for the default one.
    """

    __slots__ = ("metadata", "post", "pre", "retains", "stream", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, HookTable] = {}
        self.retains: dict[int, GradientSlot] = {}
        self.pre: HookTable | None = None
        self.post: HookTable | None = None
        self.metadata: dict[Any, Any] = {}
        self.stream: Any = None

    def table(self, kind: str) -> HookTable:
        """The node hooks of a kind ("pre" or "post"), made on first demand."""
        found: HookTable | None = getattr(self, kind)
        if found is None:
            found = HookTable()
            setattr(self, kind, found)
        return found

    def declared(self) -> bool:
        """Whether a hook of the tensor runs in the kernel that accumulates."""
        for table in self.tensor.values():
            if table.declared:
                return True
        return False


class Node:
    """One recorded operation (PyTorch: `torch.autograd.graph.Node`).

    sequence_nr: creation order; edges: see the module; saved: what the formulas named, None once
    released (a second run then raises); shape, dtype: of the single output (`metas` for several);
    hooks: NodeHooks, None while there are none.
    """

    __slots__ = ("__weakref__", "dtype", "edges", "hooks", "saved", "seq", "shape")
    multi: ClassVar[bool] = False
    leaf: ClassVar[bool] = False
    sums: ClassVar[bool] = False  # takes the pending gradients of its slots as they are
    follows: ClassVar[bool] = False  # has no kernels: runs on the stream its gradient comes from
    saves: ClassVar[bool] = False
    completing: ClassVar[Any] = None  # the call whose hooks wait for its region (completion.py)
    fresh: ClassVar[tuple[bool, ...]] = ()
    edge_positions: ClassVar[tuple[int, ...] | None] = None
    n_inputs: ClassVar[int] = 0

    edges: Edges
    hooks: NodeHooks | None
    saved: Any
    seq: int
    shape: tuple[int, ...]
    dtype: Any

    def backward(self, g: Any) -> tuple[Any, ...]:
        """Gradients of the edges, from bare arrays. g: of the output (a list of them for several
        outputs).
        """
        raise NotImplementedError(f"{self.name()} has no backward")

    def backward_recorded(self, g: Any) -> tuple[Any, ...]:
        """The same on Tensors, recorded, for create_graph."""
        raise NotImplementedError(f"{self.name()} has no recorded backward")

    def name(self) -> str:
        """PyTorch's name, e.g. `MulBackward0`."""
        return type(self).__name__

    def meta(self, output_nr: int) -> TensorMeta:
        """Shape and dtype of one output."""
        return TensorMeta(self.shape, self.dtype, object)

    @property
    def n_outputs(self) -> int:
        return 1

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """(node, output_nr) for each input; (None, 0) for one that needs no gradient."""
        pairs = list(zip(self.edges[::2], self.edges[1::2], strict=True))
        if self.edge_positions is None:
            return tuple(pairs)
        shown: list[tuple[Node | None, int]] = [(None, 0)] * self.n_inputs
        for position, pair in zip(self.edge_positions, pairs, strict=True):
            shown[position] = pair
        return tuple(shown)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's own notes about this node."""
        return self.hook_set().metadata

    @property
    def _input_metadata(self) -> tuple[TensorMeta, ...]:
        """What the gradient of each output looks like."""
        return tuple(self.meta(k) for k in range(self.n_outputs))

    def _sequence_nr(self) -> int:
        return self.seq

    def hook_set(self) -> NodeHooks:
        """The node's hooks, made on first demand."""
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_outputs) -> tuple or None` before the node runs, after all tensor hooks; a
        tuple of the same length replaces grad_outputs, which has an entry an output, None where
        nothing arrived.

        Returns the handle that removes it. Errors: as register_hook. Source:
        torch.autograd.graph.Node.register_prehook.
        """
        return self.hook_set().table("pre").add(hook)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs) -> tuple or None` after the node ran; a tuple of equal
        length replaces grad_inputs. Entries: one an input and one an output, None where no gradient
        flows; at the node of a leaf grad_inputs is ().

        Returns the handle that removes it. Errors: TypeError for what is not callable; in the
        backward TypeError for a result that is no tuple, RuntimeError for one that does not fit.
        Source: torch.autograd.graph.Node.register_hook.
        """
        return self.hook_set().table("post").add(hook)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class GradientSlot:
    """What a tensor keeps about its gradient, owned by the tensor and by its accumulator alike.

    grad: the accumulated gradient (a Tensor) or None. leaf: weak reference to the tensor; array:
    its array, so that a post-accumulate hook has a parameter even when the tensor object died.
    post_accumulate: those hooks or None.
    retains: retain_grad() was asked. parked: the accumulator while requires_grad is off.
    hooked_views: views of the tensor with hooks, and the edge each was registered at.
    """

    __slots__ = (
        "array", "grad", "hooked_views", "leaf", "lock", "parked", "post_accumulate", "retains",
    )  # fmt: skip

    def __init__(self) -> None:
        self.array: Any = None
        self.grad: Any = None
        self.leaf: weakref.ref[Any] | None = None
        self.lock = threading.Lock()
        self.parked: AccumulateGrad | None = None
        self.post_accumulate: HookTable | None = None
        self.retains = False
        self.hooked_views: list[tuple[weakref.ref[Any], Node, int]] | None = None


class AccumulateGrad(Node):
    """The sink of a leaf: adds what arrives to `slot.grad`. Owned by the leaf, runs before all
    other ready nodes.
    """

    __slots__ = ("slot",)
    leaf = True

    def __init__(self, slot: GradientSlot, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.slot = slot
        self.seq = _LEAF_SEQUENCE + numbering.draw()
        self.edges = ()
        self.saved = ()
        self.hooks = None
        self.shape = shape
        self.dtype = dtype

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def _sequence_nr(self) -> int:
        return 2**64 - 1

    @property
    def variable(self) -> Any:
        """The leaf tensor, None when it died."""
        return None if self.slot.leaf is None else self.slot.leaf()


def conform(xp: Any, g: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Make a formula's result the gradient of a tensor of `shape` and `dtype`.

    Sums over the axes that broadcasting repeated, broadcasts what came too small, takes the real
    part for a real tensor, casts. xp: the table's functions over g's carrier. float16 sums are
    made in float32.
    Errors: RuntimeError when g's shape and `shape` do not broadcast.
    """
    if dtype.kind != "c" and g.dtype.kind == "c":
        g = xp.real(g)
    found = tuple(g.shape)
    if found != shape:
        extra = len(found) - len(shape)
        if found[extra:] == shape:  # leading axes only, as of a bias
            repeated = prod(found[:extra]) != 1
            g = xp.sum_to(g, shape=shape) if repeated else xp.reshape(g, shape=shape)
        elif len(found) < len(shape) or _is_smaller(found, shape):
            g = xp.broadcast_to(g, shape=_checked(found, shape))
        else:
            _checked(shape, found)
            g = xp.sum_to(g, shape=shape)
    if g.dtype != dtype:
        g = xp.cast(g, dtype=dtype)
    return g


def _is_smaller(found: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether broadcasting takes `found` to `shape`, not the other way round."""
    return len(found) == len(shape) and all(f in (1, s) for f, s in zip(found, shape, strict=True))


def _checked(small: tuple[int, ...], large: tuple[int, ...]) -> tuple[int, ...]:
    """`large`, when `small` broadcasts to it."""
    pairs = zip(small[::-1], large[::-1], strict=False)
    if len(small) > len(large) or any(s not in (1, n) for s, n in pairs):
        raise RuntimeError(f"gradients of shape {small} and {large} do not broadcast to each other")
    return large


class GradientEdge(NamedTuple):
    """Output `output_nr` of `node`: a root or an input of a backward run without its tensor."""

    node: Node
    output_nr: int
    ownership_token: Any = None

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """`hook(grad) -> Tensor or None` once a backward run, as Tensor.register_hook of the tensor
        at this place, which may be gone. Errors: TypeError for what is not callable.
        """
        return hook_table(self.node, self.output_nr).add(hook)


def hook_table(node: Node, output_nr: int) -> HookTable:
    """The hooks of the tensor at this output, made on first demand."""
    tables = node.hook_set().tensor
    found = tables.get(output_nr)
    if found is None:
        found = tables[output_nr] = HookTable()
    return found


def increment_version(tensor: Any) -> None:
    """Say that the memory behind a tensor (or each of several) was written outside gradhook, so
    that a backward run that needs the old values raises.

    Errors: RuntimeError for what is neither a tensor nor several; TypeError when one of them is no
    tensor. Source: torch.autograd.graph.increment_version.
    """
    if not hasattr(tensor, "_v") and not isinstance(tensor, Iterable):
        raise RuntimeError(
            f"increment_version expect a Iterable[Tensor] as input, found {type(tensor).__name__}"
        )
    for t in (tensor,) if hasattr(tensor, "_v") else tuple(tensor):
        if not hasattr(t, "_v"):
            raise TypeError(
                "increment_version expects each element of the iterable to be a tensor, found "
                f"{type(t).__name__}"
            )
        bump(t)


def released_error() -> RuntimeError:
    """A node's saved values are gone."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() "
        "or autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if "
        "you need to access "
        "saved tensors after calling backward."
    )


def stale_error(
    node: Node, name: str, shape: Any, dtype: Any, found: int, expected: int
) -> RuntimeError:
    """A saved tensor was written in place after it was saved."""
    what = dtypes.of(dtype).title
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: "
        f"[gradhook.{what}Tensor {list(shape)}], saved as {name!r} by {node.name()}, is at "
        f"version {found}; expected "
        f"version {expected} instead. Hint: clone() the tensor before the in-place operation."
    )


CurrentTask = Callable[[], "GraphTask | None"]


# PyTorch has these in torch.autograd.graph. They are built on what is above, so they are fetched
# from their modules when asked for.
_elsewhere = Later()
for _module, _names in (
    ("introspection", "get_accumulator get_gradient_edge"),
    ("multi_grad", "register_multi_grad_hook"),
    ("mutation", "allow_mutation_on_saved_tensors"),
    ("save_on_cpu", "save_on_cpu"),
    ("saved_hooks", "disable_saved_tensors_hooks saved_tensors_hooks"),
    ("watch", "node_creation_hook"),
):
    _elsewhere.put_from(f"gradhook.autograd.{_module}", _names)
__getattr__, __dir__ = attributes(globals(), _elsewhere)
