"""Padding of the last axes: by a constant, by reflection, by the edge, or around."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """input with pad[0], pad[1] elements before and after the last axis, pad[2], pad[3] for the one
    before, ...

    mode: "constant" (any axes; negative numbers crop), "reflect", "replicate" or "circular" (the
    last axes of an input with one or two more). value: the constant, 0 by default. Any dtype.
    Errors: RuntimeError, NotImplementedError.
    """
    pads = tuple(int(p) for p in pad)
    if len(pads) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pads) // 2 > input._a.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pads)} and input of dimension {input._a.ndim}"
        )
    if mode == "constant":
        sizes = _padded_sizes(input, pads)
        if min(sizes, default=0) < 0:
            raise RuntimeError(
                f"The input size {list(input.shape)}, plus padding {list(pads)}, is negative: "
                f"{sizes}"
            )
        return xp.pad_constant(input, pad=pads, value=0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    result = input
    for k in range(len(pads) // 2):
        axis = input._a.ndim - 1 - k
        index = _positions(int(input._a.shape[axis]), pads[2 * k], pads[2 * k + 1], mode)
        where = make(ARRAY_MODULES[type(input._a)].asarray(index))
        result = xp.index_select(result, where, axis=axis)
    return result


def _padded_sizes(input: Tensor, pads: tuple[int, ...]) -> list[int]:
    sizes = list(input._a.shape)
    for k in range(len(pads) // 2):
        sizes[-1 - k] += pads[2 * k] + pads[2 * k + 1]
    return sizes


def _positions(
    size: int, before: int, after: int, mode: str
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which element of an axis stands at each place of the padded one."""
    if mode == "circular":
        if before > size or after > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        kept = np.arange(
            max(-before, 0), size - max(-after, 0)
        )  # what is cropped is not wrapped around
        return kept[np.arange(-max(before, 0), len(kept) + max(after, 0)) % len(kept)]
    places = np.arange(-before, size + after)
    if mode == "replicate":
        return places.clip(0, size - 1)
    if before >= size or after >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but "
            f"got: padding ({before}, {after}) at an axis of size {size}"
        )
    folded = np.abs(places)
    return np.where(folded >= size, 2 * (size - 1) - folded, folded)
