"""The LSTM on NumPy: a step is a product and one native call, or eleven array calls, and its
backward as many; the rest is done for many steps at once. The gates are arrays one after the other,
in the order cell, input, forget, output: those with a logistic function are neighbours, and those
that get their gradient through c.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.kernels.host_native import host_function
from gradhook.kernels.launch import dtype_name, is_plain
from gradhook.kernels.parts import PART, scratch, slices
from gradhook.kernels.registry import host_kernel_for
from gradhook.native import library

Array = Any
ORDER = [2, 0, 1, 3]  # the gates here, among those of a weight
BACK = [1, 2, 0, 3]  # the gates of a weight, among those here
FILE = "recurrent_cpu.h"
STEP = "T* gates, const T* c, T* cells, T* outputs, long long size"
STEP_VJP = (
    "const T* gates, const T* cells, const T* older, const T* by_h, const T* by_c, "
    "const T* shares, T* later, T* out, long long far, long long size"
)
# a logistic function is one of tanh: of x / 2, halved, plus 1 / 2
HALVES = np.array([1, 0.5, 0.5, 0.5])


def _takes(*arrays: Array) -> bool:
    kind = arrays[0].dtype
    return kind.char in "fd" and all([a.dtype == kind and a.size for a in arrays])


def _by_gate(weight: Array, scaled: bool) -> Array:
    """(4 * n, ...) as (4, n, ...), a copy, in this order; halved for tanh if `scaled`."""
    found = weight.reshape(4, -1, *weight.shape[1:])[ORDER]
    if scaled:
        found *= HALVES.astype(found.dtype).reshape(4, *(1,) * weight.ndim)
    return found


def _rows(x: Array, h: Array) -> Array:
    """What a step multiplies by the weights, (length, batch, features + 1 + n): x, a one for the
    biases, and room for h, which is there in the first. Scratch memory.
    """
    m = x.shape[-1]
    found = scratch("lstm rows", (*x.shape[:2], m + 1 + h.shape[-1]), x.dtype)
    found[:, :, :m], found[:, :, m], found[0, :, m + 1 :] = x, 1, h
    return found


@host_kernel_for("lstm_sequence")
def lstm_sequence(
    x: Array, h: Array, c: Array, weight: Array, weight_hh: Array, bias: Array | None = None
) -> Any:
    """Kernel of the table's lstm_sequence."""
    if not _takes(x, h, c, weight, weight_hh):
        return NotImplemented
    (batch, n), m, dtype = c.shape, x.shape[-1], x.dtype
    rows, weights = _rows(x, h), np.zeros((4, m + 1 + n, n), dtype)
    weights[:, :m] = _by_gate(weight, True).swapaxes(1, 2)
    weights[:, m + 1 :] = _by_gate(weight_hh, True).swapaxes(1, 2)
    if bias is not None:
        weights[:, m] = _by_gate(bias, True)
    gates = np.empty((len(x), 4, batch, n), dtype)
    outputs, cells = np.empty((2, len(x), batch, n), dtype)
    step = _step(c)
    for t in range(len(x)):
        a, cell, after = gates[t], cells[t], outputs[t]
        if t:
            rows[t, :, m + 1 :] = h
        np.matmul(rows[t], weights, out=a)
        step(a, c, cell, after, c.size)
        h, c = after, cell
    return outputs, cells, gates


def _step(c: Array) -> Any:
    """What computes a step from the products: natively, or in ten array calls."""
    if library.is_available() and is_plain(c):
        native = host_function(FILE, "lstm_step", STEP, dtype_name(c))
        if native is not library.unbuilt:
            return native
    seen, half = np.empty_like(c), c.dtype.type(0.5)

    def step(a: Array, c: Array, cell: Array, after: Array, _: int) -> None:
        np.tanh(a, out=a)
        logistic = a[1:]
        np.multiply(logistic, half, out=logistic)
        np.add(logistic, half, out=logistic)
        np.multiply(a[2], c, out=cell)
        np.multiply(a[0], a[1], out=seen)
        np.add(cell, seen, out=cell)
        np.tanh(cell, out=seen)
        np.multiply(a[3], seen, out=after)

    return step


def _slopes(gates: Array, cells: Array, older: Array, out: Array, through: Array) -> None:
    """What the gradients of c (first three gates) and of h are multiplied by to be those of the
    gates, into `out`; what that of h is to add to that of c, into `through`. gates, out: (steps, 4,
    batch, n).
    """
    np.subtract(1, gates, out=out)
    np.multiply(out, gates, out=out)
    (g, i, _, o), (of_g, of_i, of_f, of_o) = gates.swapaxes(0, 1), out.swapaxes(0, 1)
    np.multiply(g, g, out=of_g)
    np.subtract(1, of_g, out=of_g)
    np.multiply(of_g, i, out=of_g)
    np.multiply(of_i, g, out=of_i)
    np.multiply(of_f, older, out=of_f)
    np.tanh(cells, out=through)
    np.multiply(of_o, through, out=of_o)
    np.multiply(through, through, out=through)
    np.subtract(1, through, out=through)
    np.multiply(through, o, out=through)


def _natively_through_time(
    by_h: Array, by_c: Array, c: Array, weight: Array, cells: Array, gates: Array
) -> tuple[Array, Array, Array]:
    """What `_through_time` gives, a step's array calls being one."""
    length, (batch, n), dtype = len(cells), c.shape, c.dtype
    found, weights = scratch("lstm", (4, length, batch, n), dtype), _by_gate(weight, False)
    share, later = np.zeros((4, batch, n), dtype), np.zeros((batch, n), dtype)
    step, far = host_function(FILE, "lstm_step_vjp", STEP_VJP, dtype_name(c)), length * c.size
    for t in range(length - 1, -1, -1):
        to = found[:, t]
        older = cells[t - 1] if t else c
        step(gates[t], cells[t], older, by_h[t], by_c[t], share, later, to[0], far, c.size)
        np.matmul(to, weights, out=share)
    return found, share.sum(axis=0), later


def _through_time(
    by_h: Array, by_c: Array, c: Array, weight: Array, cells: Array, gates: Array
) -> tuple[Array, Array, Array]:
    """The gradients of the gates, before their functions, (4, length, batch, n) in scratch memory,
    of h and of c.
    """
    length, (batch, n), dtype = len(cells), c.shape, c.dtype
    found, weights = scratch("lstm", (4, length, batch, n), dtype), _by_gate(weight, False)
    share = np.empty((4, batch, n), dtype)
    g_h, g_c, later_h, later_c = np.zeros((4, batch, n), dtype)
    step = max(1, PART // c.size)
    slopes = scratch("lstm slopes", (step, 4, batch, n), dtype)
    through, older = scratch("lstm cells", (2, step, batch, n), dtype)
    for part in reversed(list(slices(length, step))):
        y, count = gates[part], len(gates[part])
        older[1:count] = cells[part][:-1]
        older[0] = cells[part.start - 1] if part.start else c
        _slopes(y, cells[part], older[:count], slopes[:count], through[:count])
        for t in range(count - 1, -1, -1):
            of, now = slopes[t], part.start + t
            np.add(by_h[now], later_h, out=g_h)
            np.multiply(g_h, through[t], out=g_c)
            np.add(g_c, later_c, out=g_c)
            np.add(g_c, by_c[now], out=g_c)
            np.multiply(of[:3], g_c, out=found[:3, now])
            np.multiply(of[3], g_h, out=found[3, now])
            np.multiply(g_c, y[t, 2], out=later_c)
            np.matmul(found[:, now], weights, out=share)
            np.add.reduce(share, 0, out=later_h)
    return found, later_h, later_c


@host_kernel_for("lstm_sequence_vjp")
def lstm_sequence_vjp(
    by_h: Array, by_c: Array, x: Array, h: Array, c: Array, weight: Array, weight_hh: Array,
    bias: Array | None, hidden: Array, cells: Array, activated: Array, *, needs: tuple[bool, ...],
) -> Any:  # fmt: skip
    """Kernel of the gradients of lstm_sequence: those of all weights are one product a gate."""
    if not _takes(by_h, by_c, x, h, c, weight, weight_hh, activated):
        return NotImplemented
    native: Any = library.unbuilt
    if library.is_available() and is_plain(by_h, by_c, c, cells, activated):
        native = host_function(FILE, "lstm_step_vjp", STEP_VJP, dtype_name(c))
    given = (by_h, by_c, c, weight_hh, cells, activated)
    built = native is not library.unbuilt
    found, later_h, later_c = (_natively_through_time if built else _through_time)(*given)
    by, m = found.reshape(4, -1, c.shape[-1]), x.shape[-1]
    by_x = np.matmul(by, _by_gate(weight, False)).sum(axis=0).reshape(x.shape) if needs[0] else None
    rows = _rows(x, h)
    rows[1:, :, m + 1 :] = hidden[:-1]
    of = np.matmul(by.swapaxes(1, 2), rows.reshape(-1, rows.shape[-1]))
    return (
        by_x,
        later_h,
        later_c,
        of[BACK, :, :m].reshape(weight.shape),
        of[BACK, :, m + 1 :].reshape(weight_hh.shape),
        None if bias is None else of[BACK, :, m].reshape(-1),
    )
