"""Steps over many parameters at once: one launch a dtype instead of several array calls a
parameter, on CuPy arrays, and on NumPy's where kernels run natively.

`sgd` and `elementwise` step what the kernels take and return the parameters that are left, which
the array calls of SGD.update and Elementwise.update then step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels import optimizer as kernels
from gradhook.kernels.launch import is_contiguous, is_plain
from gradhook.native import library
from gradhook.storage import bump, is_lent
from gradhook.tensor import Tensor

# elements of a NumPy parameter from which a launch, whose table costs some 30 us, is worth it: of
# SGD's two array calls, of the others' ten
LEAST_OF_SGD, LEAST = 1 << 16, 1 << 13
Row = tuple[Any, ...]  # arrays of one parameter: itself, its gradient, its state's


def _kinds() -> tuple[type, ...]:
    """The array classes that kernels take here."""
    return (*backend.cupy_types(), *((np.ndarray,) if library.is_available() else ()))


def _taken(
    params: list[Any], state_of: Callable[[Any], list[Any]], least: int, functor: str, states: int
) -> tuple[list[Row], list[Any]]:
    """((parameter, state's tensors), arrays) of those that kernels take, and the parameters left.

    state_of: the tensors of a parameter's state, made when there are none, so many. least: elements
    of a NumPy parameter. functor: the kernel's.
    """
    kinds = _kinds()
    taken, left = [], []
    unique = len({id(p) for p in params}) == len(params)
    for p in params:
        slot = p._slot
        if slot is None or slot.grad is None:
            continue
        a, g = p._a, slot.grad._a
        if type(a) is np.ndarray and a.size < least:
            left.append(p)
            continue
        if (
            type(a) in kinds
            and type(g) is type(a)
            and a.size
            and unique
            and is_plain(a)
            and g.dtype == a.dtype
            and kernels.runs(functor, 2 + states, a)
        ):
            if not is_contiguous(g):
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
    """Step a group's parameters; returns those left. See SGD for the formula."""
    params: list[Any] = group["params"]
    if not _kinds() or not is_number(group["lr"]):
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

    taken, left = _taken(params, state_of, LEAST_OF_SGD, "sgd", int(bool(momentum)))
    rows: dict[Any, list[Row]] = defaultdict(list)
    for tensors, arrays in taken:
        first = arrays[0]
        rows[type(first), first.dtype.char, id(tensors[-1]) in started].append(arrays)
        for t in tensors:
            bump(t)
    numbers = {
        "rate": float(group["lr"]),
        "keep": 1.0,
        "decay": group["weight_decay"],
        "momentum": momentum,
        "share": 1 - group["dampening"],
        "nesterov": group["nesterov"],
        "maximize": group["maximize"],
    }
    for (_, _, starts), some in rows.items():
        kernels.elementwise("sgd", some, {**numbers, "starts": starts})
    return left


def elementwise(
    optimizer: Any, group: dict[str, Any], initial: dict[str, Any], names: list[str]
) -> list[Any]:
    """Step a group's CuPy parameters; returns those left. See Elementwise.

    initial, names: the state before the first step, and the names of its arrays.
    """
    params: list[Any] = group["params"]
    if not _kinds():
        return params
    if not all([is_number(n) for n in (group["lr"], *group.get("betas", ()))]):
        return params

    def state_of(p: Any) -> list[Any]:
        state = optimizer.started(p, initial)
        return [state[name] for name in names]

    taken, left = _taken(params, state_of, LEAST, optimizer.functor, len(names))
    rows: dict[Any, list[Row]] = defaultdict(list)
    numbers: dict[Any, dict[str, Any]] = {}
    shared = optimizer.host_scalars == ("step",)  # parameters of one count have the same numbers
    count, n = None, {}
    for tensors, arrays in taken:
        state = optimizer.state[tensors[0]]
        if not all([type(state[name]._a) is np.ndarray for name in optimizer.host_scalars]):
            left.append(tensors[0])
            continue
        step = state["step"]._a
        now = step.item() + 1.0
        step[()] = now
        if not shared or now != count:
            count, n = now, optimizer.all_numbers(group, state)
        first = arrays[0]
        key = (type(first), first.dtype.char, count if shared else tuple(n.values()))
        numbers[key] = n
        rows[key].append(arrays)
        for t in tensors:
            bump(t)
    for key, some in rows.items():
        kernels.elementwise(optimizer.functor, some, numbers[key])
    return left
