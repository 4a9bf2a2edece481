"""Activation checkpointing: save the inputs of a function, compute the rest again in the backward.

Built over saved_tensors_hooks: in the forward each saved tensor becomes a place holder; the first
one that a backward run unpacks starts the recomputation, which fills them all. What a run computed
again lives in its GraphTask, so nothing outlives the run, also after an exception. Only the first
graph is run backward: hooks on tensors, nodes and modules' gradients fire once a run.
Source of names, arguments and errors: torch.utils.checkpoint (use_reentrant=False).
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from gradhook import random
from gradhook.autograd.function import Function
from gradhook.autograd.graph_task import current_task
from gradhook.autograd.saved_hooks import saved_tensors_hooks
from gradhook.modes import enable_grad, get_modes
from gradhook.tensor import Tensor
from gradhook.utils.checkpoint_recompute import (
    CheckpointError as CheckpointError,
)
from gradhook.utils.checkpoint_recompute import Frame, Holder, Recorded

Contexts = tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]

_early_stop: ContextVar[bool | None] = ContextVar("gradhook_checkpoint_early_stop", default=None)
_debug: ContextVar[bool | None] = ContextVar("gradhook_checkpoint_debug", default=None)


class _Setting:
    """A context manager that sets one ContextVar."""

    variable: ContextVar[Any]

    def __init__(self, value: Any) -> None:
        self.value = value
        self._outer: list[Any] = []

    def __enter__(self) -> None:
        self._outer.append(self.variable.get())
        self.variable.set(self.value)

    def __exit__(self, *error: object) -> None:
        self.variable.set(self._outer.pop())


class set_checkpoint_early_stop(_Setting):
    """`with set_checkpoint_early_stop(enable):` checkpoints made inside stop their recomputation
    (or don't) once the last saved tensor is there, also when the backward runs outside; whatever
    their own `early_stop` says.
    """

    variable = _early_stop

    def __init__(self, enable: bool) -> None:
        super().__init__(bool(enable))


class set_checkpoint_debug_enabled(_Setting):
    """`with set_checkpoint_debug_enabled(enabled):` overrides `debug` of checkpoints made inside;
    None: does not.
    """

    variable = _debug

    def __init__(self, enabled: bool | None) -> None:
        super().__init__(enabled)


def noop_context_fn() -> Contexts:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose saved tensors are not kept but computed again when the
    backward needs them.

    preserve_rng_state: the recomputation draws the same random numbers, from every Generator; the
    streams continue afterwards as if nothing had happened. context_fn: gives the contexts of the
    forward and of the recomputation. determinism_check: "default" compares shapes, dtypes and
    devices, "none" nothing. debug: an error of that check lists the operations of both. early_stop:
    the recomputation ends with the last saved tensor. Calls may be nested; tensors among args and
    kwargs are saved for the backward as those of an operation are.
    Errors: ValueError for use_reentrant=True (None and False are the same here) and for an unknown
    determinism_check; CheckpointError, a RuntimeError, from the backward when the recomputation
    saved other tensors than the forward.
    """
    if use_reentrant:
        raise ValueError(
            "checkpoint: use_reentrant=True is not supported: that form runs a backward inside the "
            "backward, so hooks on leaves fire twice, and autograd.grad, keyword arguments and "
            "nested tensors don't work with it. Leave it out, or pass use_reentrant=False: "
            "gradients are the same."
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check: found {determinism_check!r}, expected 'default' or 'none'"
        )
    debugged = _debug.get()
    log = Recorded(context_fn) if (debug if debugged is None else debugged) else None
    forward_context, again_context = (log or context_fn)()
    saver = None
    if get_modes().grad:
        saver = CheckpointInputs.apply(_anchor(), tuple(kwargs), *args, *kwargs.values()).grad_fn
    if saver is None:
        with forward_context:
            return function(*args, **kwargs)
    states = random.snapshot() if preserve_rng_state else None
    stops = _early_stop.get()
    frame = Frame(
        _recomputation(function, len(args), tuple(kwargs), saver, states, again_context),
        early_stop if stops is None else stops,
        determinism_check == "default",
        log,
    )
    with _Placeholders(frame), forward_context:
        result = function(*args, **kwargs)
    frame.complete = True
    if states is not None:
        states.settle()
    return result


def _recomputation(
    function: Callable[..., Any],
    n_args: int,
    names: tuple[str, ...],
    saver: Any,
    states: random.Snapshot | None,
    context: contextlib.AbstractContextManager[Any],
) -> Callable[[saved_tensors_hooks], None]:
    """The call again, under the hooks given, from the saved inputs."""

    def again(hooks: saved_tensors_hooks) -> None:
        values = saver.values()
        before = None
        if states is not None:
            before = random.snapshot()
            states.restore()
        try:
            with enable_grad(), hooks, context:
                pairs = zip(names, values[n_args:], strict=True)
                function(*values[:n_args], **dict(pairs))
        finally:
            if before is not None:
                before.restore()

    return again


class _Placeholders(saved_tensors_hooks):
    """The hooks of a checkpoint's forward: nothing is kept of what is saved."""

    shares = False

    def __init__(self, frame: Frame) -> None:
        def pack(x: Any) -> Holder:
            return frame.placed(x)

        def unpack(holder: Holder) -> Any:
            return frame.value(holder, current_task())

        super().__init__(pack, unpack)


class CheckpointInputs(Function):
    """Saves a checkpoint's tensors as an operation does, so that an outer checkpoint, and other
    saved-tensor hooks, get them. The first argument requires grad."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, names: Any, *values: Any) -> Tensor:
        places = [k for k, v in enumerate(values) if isinstance(v, Tensor)]
        ctx.save_for_backward(*[values[k] for k in places])
        others = list(values)
        for k in places:
            others[k] = None

        def restored() -> list[Any]:
            found = list(others)
            for k, t in zip(places, reference().saved_tensors, strict=True):
                found[k] = t
            return found

        reference: Callable[[], Any] = weakref.ref(ctx)  # ctx owns `restored`
        ctx.values = restored
        return anchor.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("nothing depends on it")


def _anchor() -> Tensor:
    from gradhook.creation import empty

    anchor: Tensor = empty((0,)).requires_grad_()
    return anchor


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """The functions (a Sequential or a list of modules) one after the other, in `segments` parts of
    which all but the last are checkpointed.

    kwargs: preserve_rng_state. Errors: ValueError for other keywords, for use_reentrant=True and
    for a number of segments that is not between 1 and the number of functions.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    layers: Sequence[Any] = list(
        functions.children() if hasattr(functions, "children") else functions
    )
    if not 1 <= segments <= max(len(layers), 1):
        raise ValueError(
            f"segments: found {segments}, expected 1 to {len(layers)}, the number of functions"
        )
    size = len(layers) // segments
    for k in range(segments - 1):
        part = _run(layers[k * size : (k + 1) * size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _run(layers[(segments - 1) * size :])(input)


def _run(layers: Iterable[Any]) -> Callable[[Any], Any]:
    def forward(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    return forward
