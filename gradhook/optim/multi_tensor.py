"""Steps over many CuPy parameters at once: one launch a dtype instead of several a parameter.

`sgd` and `adam` step what the kernels take and return the parameters that are left, which the
array calls of SGD.update and Adam.update then step.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gradhook import backend
from gradhook.kernels import optimizer as kernels
from gradhook.kernels.launch import is_here, is_plain
from gradhook.storage import bump
from gradhook.tensor import Tensor


def _taken(group: dict[str, Any]) -> tuple[list[tuple[Any, Any, Any]], list[Any]]:
    """(parameter, its array, its gradient's) of those that kernels take, and the others."""
    taken, left, seen = [], [], set()
    for p in group["params"]:
        slot = p._slot
        if slot is None or slot.grad is None:
            continue
        a, g = p._a, slot.grad._a
        fits = backend.is_cupy(a) and a.size and is_plain(a) and g.dtype == a.dtype
        fits = fits and id(p) not in seen  # one listed twice is stepped twice, one after the other
        seen.add(id(p))
        if fits and is_here(g):
            taken.append((p, a, g if g.flags.c_contiguous else g.copy(order="C")))
        else:
            left.append(p)
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
        if backend.is_cupy(a) and is_plain(a) and a.size and grad._node is None:
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
    taken, left = _taken(group)
    momentum = group["momentum"]
    rows: dict[Any, list[Any]] = defaultdict(list)
    for p, a, g in taken:
        buffer = optimizer.state[p].get("momentum_buffer") if momentum else None
        starts = bool(momentum) and buffer is None
        if starts:
            buffer = optimizer.start_buffer(p)
        if buffer is not None and not is_plain(a, buffer._a):
            left.append(p)
            continue
        row = (a, g) if buffer is None else (a, g, buffer._a)
        rows[a.dtype, starts].append(row)
        bump(p)
        if buffer is not None:
            bump(buffer)
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
    taken, left = _taken(group)
    lr, beta1, beta2 = (float(n) for n in numbers)
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
    rows: dict[Any, list[Any]] = defaultdict(list)
    for p, a, g in taken:
        state = optimizer.state[p] or optimizer.start_state(p, group)
        moments = [state[name] for name in names]
        if backend.is_cupy(state["step"]._a) or not is_plain(a, *[m._a for m in moments]):
            left.append(p)
            continue
        state["step"]._a += 1
        rows[a.dtype, float(state["step"]._a)].append((a, g, *[m._a for m in moments]))
        bump(p)
        for m in moments:
            bump(m)
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
