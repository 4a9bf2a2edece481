"""Masks of attention: bool ones become added ones, shapes are checked."""

from __future__ import annotations

import math
import warnings
from typing import Any

from gradhook import creation
from gradhook.hooks.notices import caller_depth
from gradhook.nn.functional.padding import pad
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def canonical_mask(
    mask: Tensor | None,
    name: str,
    dtype: Any,
    other: Tensor | None = None,
    other_name: str = "",
) -> Tensor | None:
    """A mask to add to scores: a bool one (True is left out) becomes 0 and -inf of `dtype`.

    other: a second mask of the call; a UserWarning says when it has another dtype. Errors:
    AssertionError for a mask that is neither bool nor floating. Source: torch.nn.functional.
    """
    if mask is None:
        return None
    kind = mask._a.dtype.kind
    if kind != "b" and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=caller_depth(),
        )
    if kind != "b":
        return mask
    return xp.masked_fill(creation.zeros_like(mask, dtype=dtype), mask, value=-math.inf)


def square_subsequent_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    """(size, size) of -inf above the diagonal and 0 elsewhere: row i sees columns up to i."""
    return creation.full((size, size), -math.inf, device=device, dtype=dtype).triu(1)


def check_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether the inputs have a batch axis. Errors: AssertionError with PyTorch's texts."""
    ndim: int = query._a.ndim
    if ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor"
        )
    start = f"For {'batched' if ndim == 3 else 'unbatched'} ({ndim}-D) `query`, expected "
    if key._a.ndim != ndim or value._a.ndim != ndim:
        raise AssertionError(
            f"{start}`key` and `value` to be {ndim}-D but found {key._a.ndim}-D and "
            f"{value._a.ndim}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask._a.ndim != ndim - 1:
        raise AssertionError(
            f"{start}`key_padding_mask` to be `None` or {ndim - 1}-D but found "
            f"{key_padding_mask._a.ndim}-D tensor instead"
        )
    if attn_mask is None:
        return ndim == 3
    if attn_mask._a.ndim not in (2, 3):
        raise AssertionError(
            f"{start}`attn_mask` to be `None`, 2-D or 3-D but found {attn_mask._a.ndim}-D tensor "
            "instead"
        )
    expected = (num_heads, query._a.shape[0], key._a.shape[0])
    if ndim == 2 and attn_mask._a.ndim == 3 and attn_mask._a.shape != expected:
        raise AssertionError(
            f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
        )
    return ndim == 3


def attention_mask_of(mask: Tensor, batch: int, heads: int, rows: int, columns: int) -> Tensor:
    """An attn_mask, (L, S) or (batch * heads, L, S), as (1 or batch, 1 or heads, L, S).

    Errors: RuntimeError for another shape.
    """
    ndim = mask._a.ndim
    expected = (rows, columns) if ndim == 2 else (batch * heads, rows, columns)
    if mask._a.shape != expected:
        raise RuntimeError(
            f"The shape of the {ndim}D attn_mask is {mask.shape}, but should be {expected}."
        )
    lead = (1, 1) if ndim == 2 else (batch, heads)
    return xp.reshape(mask, shape=(*lead, rows, columns))


def padding_mask_of(mask: Tensor, batch: int, columns: int) -> Tensor:
    """A key_padding_mask, (batch, S), as (batch, 1, 1, S).

    Errors: AssertionError for another shape.
    """
    for axis, expected in enumerate((batch, columns)):
        if mask._a.shape[axis] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{axis}] to be {expected}, but got "
                f"{mask._a.shape[axis]}"
            )
    return xp.reshape(mask, shape=(batch, 1, 1, columns))


def widened(mask: Tensor | None, columns: int) -> Tensor | None:
    """A mask with `columns` further columns that everyone sees."""
    return mask if mask is None or not columns else pad(mask, (0, columns))
