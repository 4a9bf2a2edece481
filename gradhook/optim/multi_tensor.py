"""Steps over many CuPy parameters at once: one launch a dtype instead of several a parameter.

`sgd` and `adam` step what the kernels take and return the parameters that are left, which the
array calls of SGD.update and Adam.update then step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels import optimizer as kernels
from gradhook.kernels.launch import is_plain
from gradhook.storage import bump, is_lent
from gradhook.tensor import Tensor

Row = tuple[Any, ...]  # arrays of one parameter: itself, its gradient, its state's


def _taken(params: list[Any], state_of: Callable[[Any], list[Any]]) -> tuple[list[Row], list[Any]]:
    """((parameter, state's tensors), arrays) of those that kernels take, and the parameters left.

    state_of: the tensors of a parameter's state, made when there are none.
    """
    kind: Any = backend.cupy_types()[0]
    taken, left = [], []
    unique = len({id(p) for p in params}) == len(params)
    for p in params:
        slot = p._slot
        if slot is None or slot.grad is None:
            continue
        a, g = p._a, slot.grad._a
        if (
            isinstance(a, kind)
            and isinstance(g, kind)
            and a.size
            and unique
            and is_plain(a)
            and g.dtype == a.dtype
        ):
            if not g._c_contiguous:
                g = g.copy(order="C")
            tensors = state_of(p)
            arrays = (a, g, *[t._a for t in tensors])
            if is_plain(*arrays):
                taken.append(((p, *tensors), arrays))
                continue
        left.append(p)  # one listed twice is stepped twice, one after the other
    return taken, left


def zero(params: list[Any]) -> list[Any]:
    """Fill the gradients of CuPy parameters with zeros; returns the parameters left."""
    if not backend.cupy_types():
        return params
    rows: dict[Any, list[Any]] = defaultdict(list)
    left = []
    for p in params:
        grad = None if p._slot is None else p._slot.grad
        if grad is None:
            continue
        a = grad._a
        if (
            backend.is_cupy(a)
            and is_plain(a)
            and a.size
            and grad._node is None
            and not is_lent(grad._v)
        ):
            rows[a.dtype].append(a)
            bump(grad)
        else:
            left.append(p)
    for arrays in rows.values():
        kernels.fill(arrays, 0.0)
    return left


def is_number(value: Any) -> bool:
    """Whether a number is on the host: reading it waits for nothing."""
    return not (isinstance(value, Tensor) and backend.is_cupy(value._a))


def sgd(optimizer: Any, group: dict[str, Any]) -> list[Any]:
    """Step a group's CuPy parameters; returns those left. See SGD for the formula."""
    params: list[Any] = group["params"]
    if not backend.cupy_types() or not is_number(group["lr"]):
        return params
    momentum = group["momentum"]
    state, started = optimizer.state, set()

    def state_of(p: Any) -> list[Any]:
        if not momentum:
            return []
        if (found := state[p].get("momentum_buffer")) is None:
            found = optimizer.start_buffer(p)
            started.add(id(found))
        return [found]

    taken, left = _taken(params, state_of)
    rows: dict[Any, list[Row]] = defaultdict(list)
    for tensors, arrays in taken:
        rows[arrays[0].dtype.char, id(tensors[-1]) in started].append(arrays)
        for t in tensors:
            bump(t)
    for (_, starts), some in rows.items():
        kernels.sgd(
            some,
            rate=float(group["lr"]),
            decay=group["weight_decay"],
            momentum=momentum,
            share=1 - group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            starts=starts,
        )
    return left


def adam(optimizer: Any, group: dict[str, Any]) -> list[Any]:
    """Step a group's CuPy parameters; returns those left. See Adam for the formula."""
    params: list[Any] = group["params"]
    numbers = (group["lr"], *group["betas"])
    if not backend.cupy_types() or not all([is_number(n) for n in numbers]):
        return params
    lr, beta1, beta2 = (float(n) for n in numbers)
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
    states, steps = optimizer.state, {}

    def state_of(p: Any) -> list[Any]:
        state = states[p] or optimizer.start_state(p, group)
        steps[id(p)] = state["step"]._a
        return [state[name] for name in names]

    taken, left = _taken(params, state_of)
    rows: dict[Any, list[Row]] = defaultdict(list)
    for tensors, arrays in taken:
        step = steps[id(tensors[0])]
        if type(step) is not np.ndarray:
            left.append(tensors[0])
            continue
        count = step.item() + 1.0
        step[()] = count
        rows[arrays[0].dtype.char, count].append(arrays)
        for t in tensors:
            bump(t)
    decay = group["weight_decay"]
    decoupled = group["decoupled_weight_decay"]
    for (_, count), some in rows.items():
        root = (1 - beta2**count) ** 0.5
        kernels.adam(
            some,
            rate=lr * root / (1 - beta1**count),
            keep=1 - lr * decay if decoupled else 1.0,
            decay=0.0 if decoupled else decay,
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"] * root,
            maximize=group["maximize"],
        )
    return left
