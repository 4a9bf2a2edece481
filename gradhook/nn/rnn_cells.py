"""RNNCell, LSTMCell and GRUCell: one step of a recurrent layer."""

from __future__ import annotations

import math
from typing import Any

from gradhook import creation
from gradhook.nn import init
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.nn.recorded import ops as xp
from gradhook.nn.recurrence import CELLS, State, single_step
from gradhook.tensor import Tensor


class RNNCellBase(Module):
    """The weights of a cell. weight_ih: (gates * hidden_size, input_size), weight_hh: (gates *
    hidden_size, hidden_size), bias_ih, bias_hh: (gates * hidden_size,) or None.

    All are drawn from U(-k, k), k = 1 / sqrt(hidden_size). Source: torch.nn.RNNCellBase.
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        shapes: dict[str, tuple[int, ...] | None] = {
            "weight_ih": (gates, input_size),
            "weight_hh": (gates, hidden_size),
            "bias_ih": (gates,) if bias else None,
            "bias_hh": (gates,) if bias else None,
        }
        for name, shape in shapes.items():
            made = None
            if shape is not None:
                made = Parameter(creation.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes and the arguments that differ from the defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        if nonlinearity != "tanh":
            parts.append(f"nonlinearity={nonlinearity}")
        return ", ".join(parts)

    def _next(self, mode: str, input: Tensor, state: State | None) -> State:
        """The state after one step; the batch axis is added and taken away where there is none.

        Errors: RuntimeError for sizes that do not fit, with PyTorch's texts.
        """
        batched = input._a.ndim == 2
        if not batched:
            input = xp.expand_dims(input, axis=0)
            state = state and tuple([xp.expand_dims(t, axis=0) for t in state])
        if state is None:
            shape = (input._a.shape[0], self.hidden_size)
            zeros = creation.zeros(shape, dtype=input.dtype, device=input.device)
            state = (zeros, zeros) if mode == "LSTM" else (zeros,)
        self._check(input, state)
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        found = single_step(CELLS[mode], input, state, weights)
        return found if batched else tuple([xp.squeeze(t, axis=0) for t in found])

    def _check(self, input: Tensor, state: State) -> None:
        batch, size = input._a.shape
        if size != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {size} expected {self.input_size}"
            )
        for k, t in enumerate(state):
            if t._a.shape[0] != batch:
                raise RuntimeError(
                    f"Input batch size {batch} doesn't match hidden{k} batch size {t._a.shape[0]}"
                )
            if t._a.ndim != 2 or t._a.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {t._a.shape[1]}, expected "
                    f"{self.hidden_size}"
                )


def _check_dims(name: str, what: str, value: Tensor) -> None:
    if value._a.ndim not in (1, 2):
        raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {value._a.ndim}D instead")


class RNNCell(RNNCellBase):
    """h' = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh), or relu of it.

    Source: torch.nn.RNNCell.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """input: (batch, input_size) or (input_size,), hx: (batch, hidden_size) or (hidden_size,),
        zeros when None. Result: as hx. Errors: ValueError, RuntimeError.
        """
        _check_dims("RNNCell", "input", input)
        if hx is not None:
            _check_dims("RNNCell", "hidden", hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._next(f"RNN_{self.nonlinearity.upper()}", input, hx if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM; gates in the order input, forget, cell, output.

    Source: torch.nn.LSTMCell.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """input: (batch, input_size) or (input_size,), hx: (h, c), each (batch, hidden_size) or
        (hidden_size,), zeros when None. Result: the next (h, c). Errors: ValueError, RuntimeError.
        """
        _check_dims("LSTMCell", "input", input)
        if isinstance(hx, Tensor):
            raise TypeError(
                "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor"
            )
        if hx is not None:
            for k, value in enumerate(hx):
                _check_dims("LSTMCell", f"hx[{k}]", value)
            if len(hx) != 2:
                raise RuntimeError("lstm_cell expects two hidden states")
        h, c = self._next("LSTM", input, None if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU; gates in the order reset, update, new. Source: torch.nn.GRUCell."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """input: (batch, input_size) or (input_size,), hx: (batch, hidden_size) or (hidden_size,),
        zeros when None. Result: as hx. Errors: ValueError, RuntimeError.
        """
        _check_dims("GRUCell", "input", input)
        if hx is not None:
            _check_dims("GRUCell", "hidden", hx)
        return self._next("GRU", input, hx if hx is None else (hx,))[0]


__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]
