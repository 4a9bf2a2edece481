"""MultiheadAttention."""

from __future__ import annotations

from typing import Any

from gradhook import creation
from gradhook.nn import functional as F
from gradhook.nn import init
from gradhook.nn.linear import NonDynamicallyQuantizableLinear
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor


class MultiheadAttention(Module):
    """Attention in num_heads parts, each over embed_dim / num_heads features.

    in_proj_weight: (3 * embed_dim, embed_dim), or with another kdim or vdim q_proj_weight,
    k_proj_weight: (embed_dim, kdim) and v_proj_weight: (embed_dim, vdim); bias_k, bias_v:
    (1, 1, embed_dim) with add_bias_kv. Weights are drawn by Xavier's rule, biases are 0.
    batch_first: (batch, length, features) instead of (length, batch, features).
    Errors: ValueError and AssertionError for sizes that do not fit.
    Source: torch.nn.MultiheadAttention, arXiv:1706.03762.
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.add_zero_attn = add_zero_attn
        self._make_parameters(bias, add_bias_kv, {"device": device, "dtype": dtype})
        self._reset_parameters()

    def _make_parameters(self, bias: bool, add_bias_kv: bool, where: dict[str, Any]) -> None:
        """Register the parameters in PyTorch's order; those that this one lacks are None."""
        width, packed = self.embed_dim, self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": (3 * width, width) if packed else None,
            "q_proj_weight": None if packed else (width, width),
            "k_proj_weight": None if packed else (width, self.kdim),
            "v_proj_weight": None if packed else (width, self.vdim),
            "in_proj_bias": (3 * width,) if bias else None,
        }
        for name, shape in shapes.items():
            made = None if shape is None else Parameter(creation.empty(shape, **where))
            self.register_parameter(name, made)
        self.out_proj = NonDynamicallyQuantizableLinear(width, width, bias=bias, **where)
        for name in ("bias_k", "bias_v"):
            made = Parameter(creation.empty((1, 1, width), **where)) if add_bias_kv else None
            self.register_parameter(name, made)

    def _reset_parameters(self) -> None:
        """Draw the weights anew; biases of the projections become 0."""
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for learnt in (self.bias_k, self.bias_v):
            if learnt is not None:
                init.xavier_normal_(learnt)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """query: (L, N, embed_dim), key: (S, N, kdim), value: (S, N, vdim); N first with
        batch_first; or without N.

        Masks and results: functional.multi_head_attention_forward.
        """
        turned = self.batch_first and query._a.ndim == 3
        if turned:
            query, key, value = _transposed(query, key, value)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return output.transpose(1, 0) if turned else output, weights


def _transposed(*tensors: Tensor) -> list[Tensor]:
    """Each with its first two axes exchanged; the same tensor twice stays one tensor."""
    views = {id(t): t.transpose(1, 0) if t._a.ndim > 1 else t for t in tensors}
    return [views[id(t)] for t in tensors]


__all__ = ["MultiheadAttention"]
