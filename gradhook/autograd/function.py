"""autograd.Function: a user's own forward and backward as one node. Source:
torch.autograd.Function (both forms).
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from gradhook.autograd import engine
from gradhook.autograd.binding import Binding, cell_of, make, make_at
from gradhook.autograd.function_checks import check_dirty, expect_own_names
from gradhook.autograd.graph import Node, TensorMeta, released_error
from gradhook.autograd.inplace import rebase_to
from gradhook.autograd.node_streams import note_stream
from gradhook.autograd.numbering import numbering
from gradhook.autograd.saved import NOTHING, Entry, save_one, unpack
from gradhook.autograd.saved_tensor import saved_tensor
from gradhook.autograd.views import CUSTOM, View, edge_of
from gradhook.autograd.watch import kept
from gradhook.modes import NO_GRAD, Modes, get_modes, set_modes, with_grad


class FunctionNode(Node):
    """The node of one `Function.apply`, and the `ctx` of its forward and backward (PyTorch:
    `BackwardCFunction`).
    """

    multi = True
    saves = True
    _function: ClassVar[Any]

    def __init__(self) -> None:
        self.hooks = None
        self.edges = ()
        self.saved = ()
        self._metas: tuple[TensorMeta | None, ...] = ()  # None: the output is no tensor
        self.needs_input_grad: tuple[bool, ...] = ()
        self.to_save: tuple[Any, ...] | None = None
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    @property
    def n_outputs(self) -> int:
        return len(self._metas)

    @property
    def n_inputs(self) -> int:  # type: ignore[override]
        return len(self.needs_input_grad)

    @property
    def edge_positions(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(k for k, needed in enumerate(self.needs_input_grad) if needed)

    def meta(self, output_nr: int) -> TensorMeta | None:  # type: ignore[override]
        return self._metas[output_nr]

    # ---- what forward calls ----------------------------------------------------------------
    def save_for_backward(self, *tensors: Any) -> None:
        """Keep inputs, outputs or other tensors for `ctx.saved_tensors`; None is allowed.

        Errors: TypeError for what is no tensor.
        """
        for t in tensors:
            if t is not None and not isinstance(t, Binding.tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type "
                    f"{type(t).__name__}; keep "
                    "other values as attributes of ctx"
                )
        self.to_save = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """These inputs were written in place; each must be an output."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """These outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for outputs without gradient."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What save_for_backward kept. Errors: RuntimeError once freed, or when one was written in
        place since.
        """
        if self.saved is None:
            raise released_error()
        return tuple([_restored(self, k, *s) for k, s in enumerate(zip(*self.saved, strict=True))])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """`saved_tensors` under its name of old. Warns: DeprecationWarning."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        """A SavedTensor, which takes hooks, for each of them."""
        if self.saved is None:
            raise released_error()
        if not self.saved:
            return ()
        return tuple([saved_tensor(self, 0, k, own) for k, own in enumerate(self.saved[1])])

    # ---- backward --------------------------------------------------------------------------
    def backward(self, g: Any) -> tuple[Any, ...]:
        carrier = engine.running_carrier()
        if self.saved is None:
            raise released_error()
        arguments = []
        for h, meta in zip(g, self._metas, strict=True):
            if h is not None:
                arguments.append(carrier.lend(h) if not carrier.recording else h)
            elif meta is None or not self.materialize_grads:
                arguments.append(None)
            else:
                arguments.append(carrier.wrap(carrier.zeros(meta)))
        results = self._function.backward(self, *arguments)
        if not isinstance(results, tuple | list):
            results = (results,)
        return self._edges_of(list(results), carrier)

    backward_recorded = backward

    def _edges_of(self, results: list[Any], carrier: Any) -> tuple[Any, ...]:
        expected = len(self.needs_input_grad)
        while len(results) > expected and results[-1] is None:
            results.pop()
        if len(results) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got "
                f"{len(results)}); return one for each argument of forward, None where there is "
                f"none"
            )
        found = []
        for k, (r, needed) in enumerate(zip(results, self.needs_input_grad, strict=True)):
            if r is not None and not isinstance(r, Binding.tensor):
                raise TypeError(
                    f"{self.name()}: expected Variable or None (got {type(r).__name__}) for "
                    f"argument {k}"
                )
            if needed:
                found.append(None if r is None else carrier.take(r))
        return tuple(found)


def _restored(node: FunctionNode, k: int, entry: Entry, own: int, of: Any) -> Any:
    """A saved tensor; the object that was saved, where it lives and still is what it was. of: a
    weak reference to it, None for an output.
    """
    t = unpack(node, f"saved_tensors[{k}]", *entry, own)
    same = None if of is None else of()
    if same is not None and same._a is t._a and same._node is entry[3] and same._nr == entry[4]:
        return same
    return t


class Function:
    """Base class of user-defined differentiable functions.

    `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`;
    `backward(ctx, *grads)` returns a gradient for each argument of forward (None where there is
    none). Called as `MyFunction.apply(*args)`.
    """

    _node_class: ClassVar[type[FunctionNode]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._node_class = type(f"{cls.__name__}Backward", (FunctionNode,), {"_function": cls})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are "
            f"all static, so you "
            "should invoke them on the class itself: use .apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The computation. Override it."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs, when forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients. Override it."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward and record one node when an argument requires grad."""
        ctx = cls._node_class()
        modes = get_modes()
        tensors = [a for a in args if isinstance(a, Binding.tensor)]
        nodes = [edge_of(a) if isinstance(a, Binding.tensor) else None for a in args]
        ctx.needs_input_grad = tuple([n is not None for n in nodes])
        edges = tuple(
            [e for a, n in zip(args, nodes, strict=True) if n is not None for e in (n, a._nr)]
        )
        versions = {id(t): t._version for t in tensors}
        set_modes(with_grad(modes, False) if modes is not NO_GRAD else modes)
        try:
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
        finally:
            set_modes(modes)
        expect_own_names(cls, ctx)
        ctx.edges = edges
        several = isinstance(output, tuple | list)
        outputs = list(output) if several else [output]
        records = modes.grad and any(ctx.needs_input_grad)
        check_dirty(cls, ctx, tensors, outputs, records, versions)
        if records:
            outputs = _record(cls, ctx, tensors, outputs)
        return type(output)(outputs) if several else outputs[0]


def _record(cls: Any, ctx: FunctionNode, tensors: list[Any], outputs: list[Any]) -> list[Any]:
    """Give the outputs their edges to ctx, and pack what was saved."""
    ctx.seq = numbering.draw()
    saved_inputs = [None if t is None else (t, t._node, t._nr) for t in ctx.to_save or ()]
    made: list[Any] = []
    metas: list[TensorMeta | None] = []
    for o in outputs:
        if not isinstance(o, Binding.tensor):
            made.append(o)
            metas.append(None)
            continue
        dirty = any(o is t for t in ctx.dirty_tensors)
        if (
            any(o is t for t in tensors) and not dirty
        ):  # an input returned as it came: an alias with a history of its own
            alias = make(o._a)
            alias._v = cell_of(o)
            alias._view = View.of(o, (), CUSTOM)
            o = alias
        differentiable = o._a.dtype.kind in "fc" and not any(o is t for t in ctx.non_differentiable)
        if differentiable and dirty:
            rebase_to(o, ctx, len(metas))
        elif differentiable:
            o._node, o._nr = ctx, len(metas)
            if o._view is not None:
                o._view.freeze(o)
        metas.append(TensorMeta(o._a.shape, o._a.dtype, type(o._a)))
        made.append(o)
    ctx._metas = tuple(metas)
    device = [o._a for o in made if isinstance(o, Binding.tensor) and o.is_cuda]
    if device:
        note_stream(ctx, device[0])
    if saved_inputs:
        ctx.saved = _saved(saved_inputs, made)
    ctx.to_save = None
    modes = get_modes()
    if modes.watch is not None:
        _watch(ctx, modes, saved_inputs)
    return made


def _saved(inputs: list[Any], outputs: list[Any]) -> tuple[Any, ...]:
    """What a ctx keeps: an entry, the output it is (-1: none) and a weak reference, a tensor."""
    entries, owns, refs = [], [], []
    for item in inputs:
        entry, own, of = NOTHING, -1, None
        if item is not None:
            t, node, nr = item
            own = next((k for k, o in enumerate(outputs) if o is t), -1)
            a, cell, version, _, _ = save_one(t, t._a)
            entry = (a, cell, version, None if own >= 0 else node, nr)
            of = weakref.ref(t) if own < 0 else None
        entries.append(entry)
        owns.append(own)
        refs.append(of)
    return (tuple(entries), tuple(owns), tuple(refs))


def _watch(ctx: FunctionNode, modes: Modes, inputs: list[Any]) -> None:
    """Saved-tensor hooks, copies on write and node hooks for one Function."""
    watch = modes.watch
    if ctx.saved and (watch.hooks is not None or watch.mutation is not None):
        entries, owns, refs = ctx.saved
        set_modes(watch.inside)
        try:
            packed = [
                kept(watch, None if item is None else item[0], e, own)
                for item, e, own in zip(inputs, entries, owns, strict=True)
            ]
        finally:
            set_modes(modes)
        ctx.saved = (tuple(packed), owns, refs)
    for hook in watch.created:
        hook(ctx)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Function's backward as not differentiable itself: a second derivative through it
    raises.
    """

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        modes = get_modes()
        set_modes(with_grad(modes, False))
        try:
            results = backward(
                ctx, *[make(g._a) if isinstance(g, Binding.tensor) else g for g in grads]
            )
        finally:
            set_modes(modes)
        if not modes.grad or not any(
            isinstance(g, Binding.tensor) and g._node is not None for g in grads
        ):
            return results
        several = isinstance(results, tuple | list)
        barred = [
            make_at(r._a, _once_only(r), 0) if isinstance(r, Binding.tensor) else r
            for r in (results if several else (results,))
        ]
        return tuple(barred) if several else barred[0]

    return wrapper


class NotDifferentiable(Node):
    """The history of a gradient made by a once-differentiable backward: it raises when used."""

    __slots__ = ()

    def backward(self, g: Any) -> tuple[Any, ...]:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )

    backward_recorded = backward


def _once_only(r: Any) -> Node:
    node = NotDifferentiable()
    node.hooks, node.edges, node.saved, node.seq = None, (), (), numbering.draw()
    node.shape, node.dtype = r._a.shape, r._a.dtype
    return node
