"""Multi-head attention as one function over its weights."""

from __future__ import annotations

import math
from typing import Any

from gradhook import creation
from gradhook.nn.functional.attention import scaled_dot_product_attention
from gradhook.nn.functional.attention_masks import (
    attention_mask_of,
    canonical_mask,
    check_inputs,
    padding_mask_of,
    widened,
)
from gradhook.nn.functional.dropout import dropout
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in num_heads parts of the projected query, key and value, projected once more.

    query: (L, N, E), key: (S, N, Ek), value: (S, N, Ev), or all without the batch axis N.
    key_padding_mask: (N, S), attn_mask: (L, S) or (N * num_heads, L, S); bool (True is left out)
    or added to the scores. is_causal: a hint that attn_mask is the causal one.
    Result: (L, N, E) and the weights, (N, L, S) or (N, num_heads, L, S) when not averaged, None
    without need_weights. A query that sees no key gives NaN, and without need_weights the value 0.
    Errors: AssertionError and RuntimeError for shapes and dtypes that do not fit, with PyTorch's
    texts. Source: torch.nn.functional, arXiv:1706.03762.
    """
    batched = check_inputs(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = (xp.expand_dims(t, axis=1) for t in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = xp.expand_dims(key_padding_mask, axis=0)
    key_padding_mask = canonical_mask(
        key_padding_mask, "key_padding_mask", query.dtype, attn_mask, "attn_mask"
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    causal = is_causal and key_padding_mask is None and not need_weights
    attn_mask = None if causal else canonical_mask(attn_mask, "attn_mask", query.dtype)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, weights)
    rows, batch, _ = query._a.shape
    if attn_mask is not None:
        attn_mask = attention_mask_of(attn_mask, batch, num_heads, rows, key._a.shape[0])
    k, v, extra = _extended(k, v, bias_k, bias_v, static_k, static_v)
    q = _heads(q, num_heads)
    k = _heads(k, num_heads) if static_k is None else _static("k", static_k, q)
    v = _heads(v, num_heads) if static_v is None else _static("v", static_v, q)
    if add_zero_attn:
        k, v = _with_zeros(k), _with_zeros(v)
        extra += 1
    mask = widened(attn_mask, extra)
    if key_padding_mask is not None:
        padding = padding_mask_of(widened(key_padding_mask, extra), batch, k._a.shape[-2])  # type: ignore[arg-type]
        mask = padding if mask is None else mask + padding
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        result, seen = _attended(q, k, v, mask, dropout_p)
    else:
        result, seen = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal), None
    joined = xp.reshape(xp.permute_dims(result, dims=(2, 0, 1, 3)), shape=(rows, batch, -1))
    output = xp.linear(joined, out_proj_weight, out_proj_bias)
    if seen is not None and average_attn_weights:
        seen = xp.mean(seen, axis=1)
    if batched:
        return output, seen
    return xp.squeeze(output, axis=1), None if seen is None else xp.squeeze(seen, axis=0)


def _check_sizes(
    query: Tensor, key: Tensor, value: Tensor, expected: int, num_heads: int, separate: bool
) -> None:
    width = query._a.shape[-1]
    if width != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % num_heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if separate and key._a.shape[:2] != value._a.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not separate and key._a.shape != value._a.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _projected(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packed: Tensor | None,
    bias: Tensor | None,
    separate: tuple[Tensor | None, ...] | None,
) -> tuple[Tensor, ...]:
    """query, key and value in embed_dim features, by one product where they are one tensor."""
    width = query._a.shape[-1]
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if separate is not None:
        for name, weight in zip("qkv", separate, strict=True):
            if weight is None:
                raise AssertionError(
                    f"use_separate_proj_weight is True but {name}_proj_weight is None"
                )
        weights: Any = separate
        _check_projections(width, (query, key, value), weights, biases)
    elif packed is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    elif query is key and key is value:
        return xp.linear(query, packed, bias).split(width, -1)
    else:
        weights = packed.chunk(3)
    inputs = (query, key, value)
    return tuple([xp.linear(*part) for part in zip(inputs, weights, biases, strict=True)])


def _check_projections(
    width: int, inputs: tuple[Tensor, ...], weights: tuple[Tensor, ...], biases: Any
) -> None:
    names = ("query", "key", "value")
    for name, x, weight in zip(names, inputs, weights, strict=True):
        expected = (width, x._a.shape[-1])
        if weight._a.shape != expected:
            raise AssertionError(
                f"expecting {name} weights shape of {expected}, but got {weight.shape}"
            )
    for name, bias in zip(names, biases, strict=True):
        if bias is not None and bias._a.shape != (width,):
            raise AssertionError(f"expecting {name} bias shape of {(width,)}, but got {bias.shape}")


def _extended(
    k: Tensor,
    v: Tensor,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    static_k: Tensor | None,
    static_v: Tensor | None,
) -> tuple[Tensor, Tensor, int]:
    """key and value, (S, N, E), with the learnt last position, and how many were added."""
    if bias_k is None or bias_v is None:
        if bias_k is not None:
            raise AssertionError("bias_k is set but bias_v is None")
        if bias_v is not None:
            raise AssertionError("bias_v is set but bias_k is None")
        return k, v, 0
    if static_k is not None:
        raise AssertionError("bias cannot be added to static key.")
    if static_v is not None:
        raise AssertionError("bias cannot be added to static value.")
    size = (1, *k._a.shape[1:])
    k = xp.concat(k, xp.expand(bias_k, size=size), axis=0)
    return k, xp.concat(v, xp.expand(bias_v, size=size), axis=0), 1


def _heads(x: Tensor, heads: int) -> Tensor:
    """(S, N, E) as a view (N, heads, S, E / heads)."""
    length, batch, width = x._a.shape
    parted = xp.reshape(x, shape=(length, batch, heads, width // heads))
    return xp.permute_dims(parted, dims=(1, 2, 0, 3))


def _static(name: str, x: Tensor, q: Tensor) -> Tensor:
    """A given key or value, (N * heads, S, E / heads), as (N, heads, S, E / heads)."""
    batch, heads, _, width = q._a.shape
    for axis, expected in ((0, batch * heads), (2, width)):
        if x._a.shape[axis] != expected:
            raise AssertionError(
                f"expecting static_{name}.size({axis}) of {expected}, but got {x._a.shape[axis]}"
            )
    return xp.reshape(x, shape=(batch, heads, *x._a.shape[1:]))


def _with_zeros(x: Tensor) -> Tensor:
    """(N, heads, S, D) with a last position of zeros."""
    batch, heads, _, width = x._a.shape
    zeros = creation.zeros((batch, heads, 1, width), dtype=x.dtype, device=x.device)
    return xp.concat(x, zeros, axis=2)


def _attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Values weighed by softmax of the scores, and these weights, (N, heads, L, S)."""
    scores = xp.matmul(q * math.sqrt(1.0 / q._a.shape[-1]), xp.matrix_transpose(k))
    weights = xp.softmax(scores if mask is None else scores + mask, axis=-1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return xp.matmul(weights, v), weights
