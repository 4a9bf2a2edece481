"""Padding by a constant; a negative pad crops, so turning the sign gives the transpose."""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import op

Array = Any


@op(
    method=False,
    linear=True,
    x=lambda xp, g, pad, sign: xp.pad_constant(g, pad=pad, sign=-sign),
)
def pad_constant(
    xp: Any, x: Array, *, pad: tuple[int, ...], value: float = 0, sign: int = 1
) -> Array:
    """x with pad[0], pad[1] elements of `value` before and after the last axis, pad[2], pad[3] for
    the one before...

    x: any shape. Negative numbers crop; sign=-1 turns every pad round. Result: dtype of x.
    Source: PyTorch, nn.functional.pad.
    """
    crop: list[slice] = [slice(None)] * x.ndim
    place: list[slice] = [slice(None)] * x.ndim
    shape = list(x.shape)
    for k in range(len(pad) // 2):
        axis = x.ndim - 1 - k
        before, after = sign * pad[2 * k], sign * pad[2 * k + 1]
        size = shape[axis]
        crop[axis] = slice(max(0, -before), size - max(0, -after))
        place[axis] = slice(max(0, before), size + before + min(0, after))
        shape[axis] = size + before + after
    out = xp.full(tuple(shape), value, dtype=x.dtype)
    out[tuple(place)] = x[tuple(crop)]
    return out
