"""RNN, LSTM and GRU over whole sequences, plain or packed."""

from __future__ import annotations

from typing import Any

from gradhook.nn.rnn_base import RNNBase
from gradhook.tensor import Tensor


def _refuse_projection(name: str, unsupported: dict[str, Any]) -> None:
    if "proj_size" in unsupported:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if unsupported:
        raise TypeError(
            f"{name}.__init__() got an unexpected keyword argument '{next(iter(unsupported))}'"
        )


class RNN(RNNBase):
    """h' = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh), or relu of it, step by step.

    nonlinearity: "tanh" or "relu". Source: torch.nn.RNN.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **unsupported: Any,
    ) -> None:
        _refuse_projection("RNN", unsupported)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(
            mode,
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """input: (length, batch, input_size), batch first with batch_first, (length, input_size) or
        a PackedSequence; hx: (layers * directions, batch, hidden_size), zeros when None.

        Result: the outputs, (..., directions * hidden_size), and the last h, as hx. Errors:
        ValueError, RuntimeError.
        """
        output, (h,) = self._forward(input, hx if hx is None else (hx,))
        return output, h


class LSTM(RNNBase):
    """Long short-term memory; gates in the order input, forget, cell, output.

    proj_size: h is brought to this size by weight_hr. Source: torch.nn.LSTM, arXiv:1402.1128.
    """

    def __init__(
        self,
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
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """input: as RNN.forward; hx: (h, c), (layers * directions, batch, proj_size or hidden_size)
        and (layers * directions, batch, hidden_size), zeros when None.

        Result: the outputs and the last (h, c). Errors: ValueError, RuntimeError.
        """
        output, (h, c) = self._forward(input, None if hx is None else (hx[0], hx[1]))
        return output, (h, c)


class GRU(RNNBase):
    """Gated recurrent units; gates in the order reset, update, new.

    Source: torch.nn.GRU, arXiv:1406.1078.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **unsupported: Any,
    ) -> None:
        _refuse_projection("GRU", unsupported)
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """As RNN.forward."""
        output, (h,) = self._forward(input, hx if hx is None else (hx,))
        return output, h


__all__ = ["GRU", "LSTM", "RNN"]
