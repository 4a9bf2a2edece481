"""RNNBase: the layers of RNN, LSTM and GRU, their checks and their run."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from gradhook import creation
from gradhook.nn import functional as F
from gradhook.nn import init
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.nn.recorded import ops as xp
from gradhook.nn.recurrence import CELLS, State, is_one_op, lstm_sequence, run
from gradhook.nn.utils.rnn import PackedSequence
from gradhook.tensor import Tensor

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """The layers of a recurrent module, their weights and their run.

    For layer k and, with the suffix _reverse, its second direction: weight_ih_lk: (gates *
    hidden_size, input of the layer), weight_hh_lk: (gates * hidden_size, size of h), bias_ih_lk,
    bias_hh_lk: (gates * hidden_size,), and with proj_size weight_hr_lk: (proj_size, hidden_size).
    All are drawn from U(-k, k), k = 1 / sqrt(hidden_size). dropout: of the outputs of every layer
    but the last. Errors: TypeError, ValueError for wrong arguments. Source: torch.nn.RNNBase.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments()
        self.dropout = float(dropout)
        self._all_weights: list[list[str]] = []
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _check_arguments(self) -> None:
        """Errors: TypeError, ValueError with PyTorch's texts. Warns of a dropout without effect."""
        p = self.dropout
        if not isinstance(p, Number) or isinstance(p, bool) or not 0 <= p <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if p > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={p} and "
                f"num_layers={self.num_layers}",
                stacklevel=5,
            )
        for name, kind in (
            ("bias", bool),
            ("batch_first", bool),
            ("input_size", int),
            ("hidden_size", int),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
                )
            if kind is int and value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def _make_parameters(self, where: dict[str, Any]) -> None:
        gates, output = _GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        for layer in range(self.num_layers):
            size = output * self._directions if layer else self.input_size
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (gates, size),
                "weight_hh": (gates, output),
            }
            if self.bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if self.proj_size:
                shapes["weight_hr"] = (self.proj_size, self.hidden_size)
            for suffix in ("", "_reverse")[: self._directions]:
                named = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in named.items():
                    self.register_parameter(name, Parameter(creation.empty(shape, **where)))
                self._all_weights.append(list(named))

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of every layer and direction, a list each."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: weights need not lie side by side, on any device; as PyTorch's without cuDNN."""

    def extra_repr(self) -> str:
        """Sizes and the arguments that differ from the defaults."""
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False}
        defaults |= {"dropout": 0, "bidirectional": False}
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in defaults.items():
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    # ---- checks ----------------------------------------------------------------------------
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Errors: ValueError for another dtype than the weights', RuntimeError for a shape."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input._a.ndim != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input._a.ndim}")
        if input._a.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input._a.shape[-1]}"
            )

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes._a[0])
        return int(input._a.shape[0 if self.batch_first else 1])

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, batch, size of h)."""
        size = self.proj_size or self.hidden_size
        return (self.num_layers * self._directions, self._batch(input, batch_sizes), size)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden_size)."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Errors: RuntimeError unless hx has this shape."""
        if hx._a.shape != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx._a.shape)))

    def _check_state(self, input: Tensor, state: State, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        if len(state) == 1:
            self.check_hidden_size(state[0], expected)
            return
        cells = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(state[0], expected, "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(state[1], cells, "Expected hidden[1] size {}, got {}")

    # ---- the run ---------------------------------------------------------------------------
    def _forward(self, input: Any, hx: State | None) -> tuple[Any, State]:
        """Outputs and last states of a Tensor or a PackedSequence; hx: first states or None."""
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            state = self._state(data, hx, sizes)
            if hx is not None and order is not None:
                state = tuple([xp.index_select(t, order, axis=1) for t in state])
            self._check_state(data, state, sizes)
            output, last = self._run(data, state, sizes._a.tolist())
            if back is not None:
                last = tuple([xp.index_select(t, back, axis=1) for t in last])
            return PackedSequence(output, sizes, order, back), last
        self._check_dims(input, hx)
        if input._a.ndim == 3:
            state = self._state(input, hx, None)
            self._check_state(input, state, None)
            return self._run(input, state, None)
        axis = 0 if self.batch_first else 1
        input = xp.expand_dims(input, axis=axis)
        state = self._state(input, hx and tuple([xp.expand_dims(t, axis=1) for t in hx]), None)
        self._check_state(input, state, None)
        output, last = self._run(input, state, None)
        return xp.squeeze(output, axis=axis), tuple([xp.squeeze(t, axis=1) for t in last])

    def _check_dims(self, input: Tensor, hx: State | None) -> None:
        ndim, name = input._a.ndim, self.mode.partition("_")[0]
        if ndim not in (2, 3):
            found = f"{ndim}D tensor" if name == "RNN" else f"{ndim}D"
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {found} instead")
        if hx is None or all([t._a.ndim == ndim for t in hx]):
            return
        start = f"For {'batched' if ndim == 3 else 'unbatched'} {ndim}-D input, hx "
        if len(hx) == 1:
            raise RuntimeError(f"{start}should also be {ndim}-D but got {hx[0]._a.ndim}-D tensor")
        raise RuntimeError(
            f"{start}and cx should also be {ndim}-D but got ({hx[0]._a.ndim}-D, "
            f"{hx[1]._a.ndim}-D) tensors"
        )

    def _state(self, input: Tensor, hx: State | None, batch_sizes: Tensor | None) -> State:
        if hx is not None:
            return hx
        shapes = [self.get_expected_hidden_size(input, batch_sizes)]
        if self.mode == "LSTM":
            shapes.append(self.get_expected_cell_size(input, batch_sizes))
        where: dict[str, Any] = {"dtype": input.dtype, "device": input.device}
        return tuple([creation.zeros(shape, **where) for shape in shapes])

    def _run(self, x: Tensor, state: State, sizes: list[int] | None) -> tuple[Tensor, State]:
        """x: (length, batch, features), batch first if so, or packed rows of these batch sizes."""
        time = 1 if self.batch_first and sizes is None else 0
        if x._a.shape[time] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        firsts = list(zip(*(t.unbind(0) for t in state), strict=True))
        lasts: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout > 0.0:
                x = F.dropout(x, self.dropout, self.training)
            found: list[Tensor] = []
            for k in range(layer * self._directions, (layer + 1) * self._directions):
                output, last = self._run_direction(x, k, firsts[k], sizes, time)
                found.append(output)
                lasts.append(last)
            x = found[0] if len(found) == 1 else xp.concat(*found, axis=-1)
        return x, tuple([xp.stack(*column, axis=0) for column in zip(*lasts, strict=True)])

    def _run_direction(
        self, x: Tensor, index: int, first: State, sizes: list[int] | None, time: int
    ) -> tuple[Tensor, State]:
        """One direction of one layer; the inputs of all steps are projected by one product."""
        names = self._all_weights[index]
        weights = {name.partition("_l")[0]: getattr(self, name) for name in names}
        cell, weight = CELLS[self.mode], weights["weight_hh"]
        bias, project = weights.get("bias_hh"), weights.get("weight_hr")
        first_bias = weights.get("bias_ih")
        if bias is not None and self.mode != "GRU":  # both only add up: once, not at every step
            first_bias, bias = first_bias + bias, None
        reverse = bool(self.bidirectional and index % 2)
        if sizes is None and project is None and is_one_op(self.mode, x):
            given = (weights["weight_ih"], weight, first_bias)
            return lstm_sequence(x, first, given, time, reverse)
        projected = xp.linear(x, weights["weight_ih"], first_bias)
        inputs = projected.unbind(time) if sizes is None else projected.split(sizes)
        outputs, last = run(
            lambda part, state: cell(part, state, weight, bias, project),
            inputs,
            first,
            reverse=reverse,
        )
        if sizes is None:
            return xp.stack(*outputs, axis=time), last
        return xp.concat(*outputs, axis=0), last


__all__ = ["RNNBase"]
