"""One step of a recurrent cell, and its run over a sequence, plain or packed.

A state is a tuple of Tensors: (h,), and (h, c) of an LSTM. Its first entry is the step's output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.kernels.registry import kernels_of
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor

State = tuple[Tensor, ...]
# (projected input, state, weight_hh, bias_hh, weight_hr) -> next state
Cell = Callable[[Tensor, State, Tensor, Tensor | None, Tensor | None], State]


def tanh_step(
    projected: Tensor, state: State, weight: Tensor, bias: Tensor | None, _: Tensor | None
) -> State:
    """tanh(x + h @ weight.T + bias). projected x: (batch, hidden), h: (batch, hidden)."""
    return (xp.tanh(projected + xp.linear(state[0], weight, bias)),)


def relu_step(
    projected: Tensor, state: State, weight: Tensor, bias: Tensor | None, _: Tensor | None
) -> State:
    """max(x + h @ weight.T + bias, 0). projected x: (batch, hidden), h: (batch, hidden)."""
    return (xp.relu(projected + xp.linear(state[0], weight, bias)),)


def lstm_step(
    projected: Tensor, state: State, weight: Tensor, bias: Tensor | None, project: Tensor | None
) -> State:
    """The next (h, c). projected: (batch, 4 * hidden), gates in the order input, forget, cell,
    output; h: (batch, hidden), or the size that `project`, (size, hidden), brings it to.

    Source: torch.nn.LSTM, arXiv:1402.1128.
    """
    h, c = state
    gates = projected + xp.linear(h, weight, bias)
    n = c._a.shape[-1]
    i, f, g, o = xp.split(gates, sizes=(n, n, n, n), axis=-1)
    c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
    h = xp.sigmoid(o) * xp.tanh(c)
    return (h if project is None else xp.linear(h, project), c)


def gru_step(
    projected: Tensor, state: State, weight: Tensor, bias: Tensor | None, _: Tensor | None
) -> State:
    """The next h. projected: (batch, 3 * hidden), gates in the order reset, update, new.

    The reset gate acts on the projected h, bias included. Source: torch.nn.GRU, arXiv:1406.1078.
    """
    h = state[0]
    n = h._a.shape[-1]
    x_gates, x_new = xp.split(projected, sizes=(2 * n, n), axis=-1)
    h_gates, h_new = xp.split(xp.linear(h, weight, bias), sizes=(2 * n, n), axis=-1)
    reset, update = xp.split(xp.sigmoid(x_gates + h_gates), sizes=(n, n), axis=-1)
    new = xp.tanh(x_new + reset * h_new)
    return (new + update * (h - new),)


CELLS: dict[str, Cell] = {
    "RNN_TANH": tanh_step,
    "RNN_RELU": relu_step,
    "LSTM": lstm_step,
    "GRU": gru_step,
}


def _rows(state: State, start: int, stop: int) -> State:
    return tuple([xp.slice_view(t, index=(slice(start, stop),)) for t in state])


def _joined(parts: Sequence[State]) -> State:
    return tuple([xp.concat(*column, axis=0) for column in zip(*parts, strict=True)])


def run(
    step: Callable[[Tensor, State], State],
    inputs: Sequence[Tensor],
    state: State,
    reverse: bool = False,
) -> tuple[list[Tensor], State]:
    """The outputs of all steps in order, and each sequence's last state.

    inputs: a step each, (rows, features); rows never grow: the sequences that ended are the last
    ones. state: first states of as many rows as inputs[0]. reverse: from each sequence's end.
    """
    rows = [int(x._a.shape[0]) for x in inputs]
    if reverse:
        return _run_reversed(step, inputs, state, rows)
    outputs: list[Tensor] = []
    ended: list[State] = []
    count = rows[0]
    for x, n in zip(inputs, rows, strict=True):
        if n < count:
            ended.append(_rows(state, n, count))
            state, count = _rows(state, 0, n), n
        state = step(x, state)
        outputs.append(state[0])
    return outputs, _joined([state, *ended[::-1]]) if ended else state


def _run_reversed(
    step: Callable[[Tensor, State], State], inputs: Sequence[Tensor], first: State, rows: list[int]
) -> tuple[list[Tensor], State]:
    count = rows[-1]
    state = first if count == rows[0] else _rows(first, 0, count)
    outputs: list[Tensor] = []
    for x, n in zip(inputs[::-1], rows[::-1], strict=True):
        if n > count:
            state, count = _joined([state, _rows(first, count, n)]), n
        state = step(x, state)
        outputs.append(state[0])
    return outputs[::-1], state


def is_one_op(mode: str, x: Tensor) -> bool:
    """Whether a whole sequence is one operation for arrays of this kind: where it has a kernel."""
    module, kind = ARRAY_MODULES[type(x._a)], x._a.dtype.kind
    return bool(kernels_of(f"{mode.lower()}_sequence", module)) and kind == "f" and x._a.size > 0


def lstm_sequence(
    x: Tensor,
    state: State,
    weights: tuple[Tensor, Tensor, Tensor | None],
    time: int,
    reverse: bool,
) -> tuple[Tensor, State]:
    """All steps of an LSTM, from the input's projection on, as one operation.

    time: the axis of steps of x. weights: weight_ih, weight_hh and the sum of both biases.
    """
    if time:
        x = xp.permute_dims(x, dims=(1, 0, 2))
    if reverse:
        x = xp.flip(x, dims=(0,))
    outputs, cells, _ = xp.lstm_sequence(x, *state, *weights)
    end = (slice(-1, None),)
    last = tuple([xp.squeeze(xp.slice_view(t, index=end), axis=0) for t in (outputs, cells)])
    if reverse:
        outputs = xp.flip(outputs, dims=(0,))
    return (xp.permute_dims(outputs, dims=(1, 0, 2)) if time else outputs), last


def single_step(
    cell: Cell, input: Tensor, state: State, weights: tuple[Any, Any, Any, Any]
) -> State:
    """One step from an input, (batch, input_size), by (weight_ih, weight_hh, bias_ih, bias_hh)."""
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    return cell(xp.linear(input, weight_ih, bias_ih), state, weight_hh, bias_hh, None)
