"""`backward` and `grad`: from tensors to a GraphTask and back. Source: torch.autograd's functions
and error texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.autograd.binding import Binding, make
from gradhook.autograd.carriers import ARRAY_MODULES, ARRAYS, Carrier
from gradhook.autograd.engine import Capture, GraphTask, restrict, run
from gradhook.autograd.graph import GradientEdge, Node
from gradhook.autograd.views import edge_of

_ones: dict[Any, Any] = {}


class Recording:
    """carrier: the carrier of create_graph, handed in by the layer that has Tensor."""

    carrier: Carrier | None = None


def carrier_for(create_graph: bool) -> Carrier:
    """Bare arrays, or recorded Tensors."""
    if not create_graph:
        return ARRAYS
    assert Recording.carrier is not None
    return Recording.carrier


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    inputs: Any = None,
) -> None:
    """Gradients of `tensors` for the leaves (or for `inputs`), added to their .grad.

    tensors: one or several; grad_tensors: the gradient of each, same shape (None for a scalar: 1).
    retain_graph:
    keep saved tensors for another run (default: create_graph). inputs: only these tensors' .grad.
    Errors: RuntimeError for a non-scalar without gradient, tensors without history, a graph
    already freed.
    """
    outputs = _sequence(tensors)
    given = _sequence(grad_tensors) if grad_tensors is not None else [None] * len(outputs)
    task = GraphTask(
        carrier_for(create_graph), create_graph if retain_graph is None else bool(retain_graph)
    )
    roots = _roots(outputs, given, task.carrier)
    if inputs is not None:
        wanted = _sequence(inputs)
        if not wanted:
            raise RuntimeError(
                "`inputs` argument to `backward()` cannot be empty. Leave it out for all leaves."
            )
        targets = _edges(wanted)
        for (node, nr), t in zip(targets, wanted, strict=True):
            if not node.leaf:
                if isinstance(t, GradientEdge):
                    continue  # its hooks run; there is no tensor to accumulate into
                task.captures.setdefault(node, []).append(Capture(nr, t))
        restrict(task, [r[0] for r in roots], {n for n, _ in targets}, run_targets=True)
    run(roots, task)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` for `inputs`, as a tuple; nothing is added to .grad.

    grad_outputs: as grad_tensors of `backward`. allow_unused: None for an input that the outputs
    don't depend on (default: materialize_grads); materialize_grads: zeros for it. Values are those
    after the inputs' tensor hooks.
    Errors: RuntimeError for inputs without grad or unused; ValueError for materialize_grads with
    allow_unused=False.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "False."
        )
    outs, wanted = _sequence(outputs), _sequence(inputs)
    given = _sequence(grad_outputs) if grad_outputs is not None else [None] * len(outs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty. Give a Tensor.")
    task = GraphTask(
        carrier_for(create_graph), create_graph if retain_graph is None else bool(retain_graph)
    )
    roots = _roots(outs, given, task.carrier)
    captures = []
    for node, nr in _edges(wanted):
        captures.append(Capture(nr))
        task.captures.setdefault(node, []).append(captures[-1])
    restrict(task, [r[0] for r in roots], set(task.captures), run_targets=False)
    run(roots, task)
    return tuple(
        _captured(k, t, c, task.carrier, bool(allow_unused or materialize_grads), materialize_grads)
        for k, (t, c) in enumerate(zip(wanted, captures, strict=True))
    )


def _captured(
    k: int, t: Any, capture: Capture, carrier: Carrier, allow_unused: bool, materialize: bool
) -> Any:
    if capture.value is not None:
        return carrier.wrap(capture.value)
    if not allow_unused:
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if "
            f"this is the desired behavior. (input {k})"
        )
    if not materialize:
        return None
    meta = t.node.meta(t.output_nr) if isinstance(t, GradientEdge) else None
    like = t._a if meta is None else ARRAYS.zeros(meta._replace(array_type=np.ndarray))
    zeros = ARRAY_MODULES[type(like)].zeros(like.shape, like.dtype)
    return make(zeros)


def _sequence(x: Any) -> list[Any]:
    if isinstance(x, Binding.tensor) or isinstance(x, GradientEdge) or not isinstance(x, Sequence):
        return [x]
    return list(x)


def _edges(inputs: list[Any]) -> list[tuple[Node, int]]:
    edges = []
    for k, t in enumerate(inputs):
        if isinstance(t, GradientEdge):
            edges.append((t.node, t.output_nr))
            continue
        if not isinstance(t, Binding.tensor):
            raise TypeError(
                f"inputs[{k}]: expected a Tensor or a GradientEdge, found {type(t).__name__}"
            )
        node = edge_of(t)
        if node is None:
            raise RuntimeError(
                f"One of the differentiated Tensors does not require grad (input {k}, shape "
                f"{tuple(t._a.shape)}); "
                "call requires_grad_() on it before the computation"
            )
        edges.append((node, t._nr))
    return edges


def _roots(outputs: list[Any], given: list[Any], carrier: Carrier) -> list[tuple[Node, int, Any]]:
    if len(outputs) != len(given):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    tensor: Any = Binding.tensor
    roots, recording = [], carrier.recording
    for k, t, g in zip(range(len(given)), outputs, given, strict=True):
        if isinstance(g, tensor) and isinstance(t, tensor):  # a gradient that fits as it is
            a, array, node = g._a, t._a, edge_of(t)
            if node is not None and type(a) is type(array):
                if a.dtype is array.dtype and a.shape == array.shape:
                    roots.append((node, t._nr, g if recording else a))
                    continue
        edge = not isinstance(t, tensor)
        if edge and not isinstance(t, GradientEdge):
            raise TypeError(f"element {k} of tensors: expected a Tensor, found {type(t).__name__}")
        node, nr = (t.node, t.output_nr) if edge else (edge_of(t), t._nr)
        if node is None:
            raise RuntimeError(
                f"element {k} of tensors does not require grad and does not have a grad_fn; call "
                f"requires_grad_() on "
                "the leaves, and compute outside no_grad()"
            )
        looks: Any = node.meta(nr) if edge else (t._a.shape, t._a.dtype, type(t._a))
        shape, dtype, kind = looks
        if g is None:
            kind = np.ndarray if kind is object else kind
            with contextlib.nullcontext() if edge or _is_here(t._a) else t._a.device:
                g = _seed(shape, dtype, kind, carrier)
        else:
            if not edge and hasattr(g, "_a") and type(g._a) is not kind:
                backend.expect_device(g._a, backend.device_of(t._a), f"gradient {k}")
            g = _given(k, g, shape, dtype, carrier)
        roots.append((node, nr, g))
    return roots


def _is_here(array: Any) -> bool:
    """Whether an array made now is beside this one."""
    return type(array) is np.ndarray or len(backend.Process.devices) == 1


def _seed(shape: Any, dtype: Any, kind: type, carrier: Carrier) -> Any:
    if prod(shape) != 1:
        raise RuntimeError(
            f"grad can be implicitly created only for scalar outputs, found shape {tuple(shape)}; "
            f"pass gradient=, or "
            "reduce with .sum()"
        )
    if dtype.kind != "f":
        raise RuntimeError(
            "grad can be implicitly created only for real scalar outputs but got "
            f"{dtypes.of(dtype)!r}; pass gradient="
        )
    key: Any = (tuple(shape), dtype, kind)
    if kind is not np.ndarray:
        key = (*key, backend.stream_key())
    found = _ones.get(key)
    if found is None:
        found = ARRAY_MODULES[kind].ones(shape, dtype)
        if len(_ones) < 64:
            _ones[key] = found
    return make(found) if carrier.recording else found


def _given(k: int, g: Any, shape: Any, dtype: Any, carrier: Carrier) -> Any:
    if not isinstance(g, Binding.tensor):
        raise TypeError(
            f"gradients can be either Tensors or None, but got {type(g).__name__} (gradient {k})"
        )
    if g._a.shape != tuple(shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{k}] has a shape of {g.shape} and output[{k}] has a "
            f"shape of "
            f"{type(g.shape)(shape)}."
        )
    if (g._a.dtype.kind == "c") != (dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same "
            "dtype. Mismatch in dtype: "
            f"grad_output[{k}] has a dtype of {g.dtype!r} and output[{k}] has a dtype of "
            f"{dtypes.of(dtype)!r}."
        )
    value = g if carrier.recording else g._a
    return carrier.conform(value, tuple(shape), dtype)
