"""Nearest and linear sampling along some axes of a tensor, with SciPy's modes."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from gradhook import dtypes
from gradhook.modes import no_grad
from gradhook.tensor import Tensor

MODES = (
    "reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "wrap", "grid-wrap",
)  # fmt: skip


def sampled(
    x: Tensor, where: list[Tensor], count: int, order: int, mode: str, cval: float
) -> Tensor:
    """x: (n1, ..., nk, b) at `where`: k coordinates of shape (count,). Result: (count, b)."""
    sizes = [int(n) for n in x.shape[:-1]]
    width = int(x.shape[-1])
    if not count or not width or not all(sizes):
        return x.new_full((count, width), cval)
    parts = [_places(c, n, order, mode) for c, n in zip(where, sizes, strict=True)]
    flat = x.reshape(prod(sizes), width)
    found: Any = 0.0
    for corner in product(*[range(len(p.at)) for p in parts]):
        index: Any = 0
        weight: Any = None
        outside: Any = None
        for k, part, n in zip(corner, parts, sizes, strict=True):
            index = index * n + part.at[k]
            if part.share is not None:
                w = part.share if k else 1 - part.share
                weight = w if weight is None else weight * w
            if part.beyond is not None:
                o = part.beyond[k]
                outside = o if outside is None else outside | o
        value = flat.index_select(0, index)
        if outside is not None:
            value = value.masked_fill(outside.unsqueeze(1), cval)
        found = found + (value if weight is None else value * weight.unsqueeze(1))
    if mode == "constant":
        lost = parts[0].lost
        for part in parts[1:]:
            lost = lost | part.lost
        found = found.masked_fill(lost.unsqueeze(1), cval)
    result: Tensor = found.to(x.dtype)
    return result


class _Places:
    """Where coordinates of one axis fall. at: indices of the elements, one or two; share: the
    weight of the second; beyond: where each lies outside (grid-constant); lost: where the
    coordinate does (constant).
    """

    __slots__ = ("at", "beyond", "lost", "share")

    def __init__(self) -> None:
        self.at: list[Any] = []
        self.share: Any = None
        self.beyond: list[Any] | None = None
        self.lost: Any = None


def _places(c: Tensor, n: int, order: int, mode: str) -> _Places:
    found = _Places()
    with no_grad():
        fixed = c.detach()
        sign, moved = _brought_inside(fixed, n, mode)
        inside = fixed if sign is None else sign * fixed + moved
        low = inside.floor() if order else (inside + 0.5).floor()
        if mode == "constant":
            found.lost = (fixed < 0) | (fixed > n - 1)
        whole = [low.to(dtypes.int64) + k for k in range(order + 1)]
        if mode == "grid-constant":
            found.beyond = [(i < 0) | (i > n - 1) for i in whole]
        found.at = [_index(i, n, mode) for i in whole]
    if order:
        found.share = (c if sign is None else sign * c + moved) - low
    return found


def _brought_inside(c: Tensor, n: int, mode: str) -> tuple[Any, Any]:
    """(sign, moved) with sign * c + moved the place in the axis that c stands for; (None, None)
    where indices alone say it.
    """
    if mode in ("reflect", "grid-mirror", "mirror"):
        period = 2 * n - 2 if mode == "mirror" else 2 * n
        if period == 0:
            return c * 0, c * 0
        turns = (c / period).floor() * period
        rest = c - turns
        back = rest >= n
        if mode == "mirror":  # SciPy turns places below 0 at once, those above from n on
            back = back | ((rest > n - 1) & (c < 0))
        end = period if mode == "mirror" else period - 1
        sign = 1.0 - 2.0 * back.to(c.dtype)
        return sign, (turns + end).where(back, -turns)
    if mode == "wrap":
        period = n - 1
        if period == 0:
            return c * 0, c * 0
        below = ((-c / period).floor() + 1) * period
        above = -(c / period).floor() * period
        moved = below.where(c < 0, above.where(c > n - 1, c * 0))
        return 1.0, moved
    if mode == "grid-wrap":
        return 1.0, -(c / n).floor() * n
    return None, None


def _index(i: Tensor, n: int, mode: str) -> Tensor:
    """Indices of elements for whole places that may lie one beyond the ends."""
    if mode == "grid-wrap":
        return i % n
    if mode == "mirror" and n > 1:
        i = i - 2 * (i > n - 1).to(i.dtype)
    clipped: Tensor = i.clamp(0, n - 1)  # also what the modes reflect and nearest mean there
    return clipped
