"""Scaled dot-product attention."""

from __future__ import annotations

import math

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.functional.dropout import dropout
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value.

    query: (..., L, E), key: (..., S, E), value: (..., S, Ev); leading axes broadcast. attn_mask:
    bool (True takes part) or added, broadcast to (..., L, S). is_causal: row i sees columns up to
    i. scale: None means 1 / sqrt(E). enable_gqa: key and value heads (axis -3) are repeated to the
    query's. A row that sees nothing gives zeros. Errors: RuntimeError for a mask beside is_causal.
    Source: arXiv:1706.03762.
    """
    if attn_mask is not None and is_causal:
        raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = (_repeated_heads(t, int(query._a.shape[-3])) for t in (key, value))
    factor = 1 / math.sqrt(query._a.shape[-1]) if scale is None else scale
    scores = xp.matmul(query * factor, xp.matrix_transpose(key))
    rows, columns = scores._a.shape[-2:]
    if is_causal:
        module = ARRAY_MODULES[type(query._a)]
        attn_mask = make(module.tri(rows, columns, dtype=np.bool_))
    blind: Tensor | None = None
    if attn_mask is not None:
        scores, blind = _masked(scores, attn_mask)
    weights = xp.softmax(scores, axis=-1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    result = xp.matmul(weights, value)
    return result if blind is None else xp.masked_fill(result, blind, value=0.0)


def _masked(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scores under a mask, and which rows see nothing, (..., L, 1).

    Those rows keep finite scores, so that neither they nor their gradients become NaN.
    """
    a = mask._a
    seen = a if a.dtype.kind == "b" else a != -math.inf
    blind: Tensor = make(~seen.any(axis=-1, keepdims=True))
    if a.dtype.kind != "b":
        return scores + xp.masked_fill(mask, blind, value=0.0), blind
    hidden = make(~seen & ~blind._a)
    return xp.masked_fill(scores, hidden, value=-math.inf), blind


def _repeated_heads(x: Tensor, heads: int) -> Tensor:
    """x: (..., h, S, E) with every head repeated heads / h times."""
    index = ARRAY_MODULES[type(x._a)].arange(heads) // (heads // x._a.shape[-3])
    return xp.index_select(x, make(index), axis=-3)
