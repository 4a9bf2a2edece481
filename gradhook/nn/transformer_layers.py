"""TransformerEncoderLayer and TransformerDecoderLayer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from gradhook.nn import functional as F
from gradhook.nn.dropout import Dropout
from gradhook.nn.functional.attention_masks import canonical_mask
from gradhook.nn.linear import Linear
from gradhook.nn.module import Module
from gradhook.nn.multihead_attention import MultiheadAttention
from gradhook.nn.normalization import LayerNorm
from gradhook.tensor import Tensor

Activation = Callable[[Tensor], Tensor]


def activation_named(activation: str | Activation) -> Activation:
    """The function of a name, "relu" or "gelu"; a callable as it is.

    Errors: RuntimeError for another name.
    """
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    found: Activation = getattr(F, activation)
    return found


def attended(
    attention: MultiheadAttention,
    x: Tensor,
    memory: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> Tensor:
    """What x attends to in memory, without the weights. Shapes: as MultiheadAttention.forward."""
    found: Tensor = attention(
        x,
        memory,
        memory,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        is_causal=is_causal,
        need_weights=False,
    )[0]
    return found


class _TransformerLayer(Module):
    """Attentions, then two Linear layers; a LayerNorm and a Dropout for each of these parts.

    attentions: the names of the attentions, in order.
    """

    attentions: ClassVar[tuple[str, ...]]
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    norm3: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    dropout3: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        heads = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **where}
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, **heads))
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        parts = range(1, len(self.attentions) + 2)
        for k in parts:
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for k in parts:
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = activation_named(activation)

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        found = attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal)
        result: Tensor = self.dropout1(found)
        return result

    def _linear_block(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return result


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention, then two Linear layers, each added to its input and normalised.

    norm_first: normalise the input of each part instead of the sum. activation: "relu", "gelu" or
    a callable. Source: torch.nn.TransformerEncoderLayer, arXiv:1706.03762, arXiv:2002.04745.
    """

    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """src: (S, N, d_model), (N, S, d_model) with batch_first, or (S, d_model).

        src_mask: (S, S) or (N * nhead, S, S), src_key_padding_mask: (N, S); bool (True is left out)
        or added. is_causal: src_mask is the causal one. Result: as src.
        """
        padding = canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", src.dtype, src_mask, "src_mask"
        )
        mask = canonical_mask(src_mask, "src_mask", src.dtype)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        result: Tensor = self.norm2(x + self._ff_block(x))
        return result

    def _ff_block(self, x: Tensor) -> Tensor:
        result: Tensor = self.dropout2(self._linear_block(x))
        return result


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoder's memory, then two Linear layers; each added to its
    input and normalised.

    Arguments: TransformerEncoderLayer. Source: torch.nn.TransformerDecoderLayer, arXiv:1706.03762.
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt: (T, N, d_model), memory: (S, N, d_model); N first with batch_first; or without N.

        tgt_mask: (T, T), memory_mask: (T, S), either with N * nhead in front; key padding masks:
        (N, T) and (N, S); bool (True is left out) or added. Result: as tgt.
        """
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        result: Tensor = self.norm3(x + self._ff_block(x))
        return result

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        found = attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal)
        result: Tensor = self.dropout2(found)
        return result

    def _ff_block(self, x: Tensor) -> Tensor:
        result: Tensor = self.dropout3(self._linear_block(x))
        return result


__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]
