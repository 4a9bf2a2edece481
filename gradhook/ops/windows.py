"""Where the windows of convolutions and poolings lie."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

Array = Any
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where windows lie: a number a spatial axis; padding is (before, after)."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[Pair, ...]
    dilation: tuple[int, ...]
    spatial: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, ...]:
        """The spatial shape with padding."""
        return tuple(n + a + b for n, (a, b) in zip(self.spatial, self.padding, strict=True))

    @property
    def out(self) -> tuple[int, ...]:
        """The number of windows along each axis."""
        axes = zip(self.padded, self.kernel, self.stride, self.dilation, strict=True)
        return tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in axes)

    def offsets(self) -> list[tuple[int, ...]]:
        """Every kernel position, in row-major order."""
        return list(product(*(range(k) for k in self.kernel)))

    def window_slices(self, offset: tuple[int, ...]) -> tuple[slice, ...]:
        """The padded elements that kernel position `offset` meets, as strided slices."""
        axes = zip(offset, self.stride, self.dilation, self.out, strict=True)
        return tuple(slice(k * d, k * d + s * (n - 1) + 1, s) for k, s, d, n in axes)

    def inner_slices(self) -> tuple[slice, ...]:
        """The unpadded part of a padded array."""
        return tuple(slice(a, a + n) for n, (a, _) in zip(self.spatial, self.padding, strict=True))


def per_axis(value: Any, n: int) -> tuple[Any, ...]:
    """One value an axis: a number or a single entry is repeated n times."""
    if isinstance(value, (tuple, list)):
        return tuple(value) * n if len(value) == 1 and n > 1 else tuple(value)
    return (value,) * n


def geometry(
    kernel: Any, stride: Any, padding: Any, dilation: Any, spatial: tuple[int, ...]
) -> Geometry:
    """The Geometry of a call's attributes; each is a number, one entry, or an entry an axis
    (padding: also pairs).
    """
    n = len(spatial)
    pads = tuple(
        (p, p) if not isinstance(p, (tuple, list)) else (p[0], p[1]) for p in per_axis(padding, n)
    )
    return Geometry(per_axis(kernel, n), per_axis(stride, n), pads, per_axis(dilation, n), spatial)


def pad_spatial(xp: Any, x: Array, where: Geometry, value: Any = 0) -> Array:
    """x with its last axes padded by a constant; x itself where there is no padding."""
    if not any(a or b for a, b in where.padding):
        return x
    out = xp.full((*x.shape[: -len(where.spatial)], *where.padded), value, dtype=x.dtype)
    out[(..., *where.inner_slices())] = x
    return out


def windows(xp: Any, x: Array, where: Geometry) -> Array:
    """What each window sees of a padded x, (*lead, *padded), as a view: (*lead, *kernel, *out)."""
    rank = len(where.spatial)
    lead, steps = x.ndim - rank, x.strides[x.ndim - rank :]
    return xp.lib.stride_tricks.as_strided(
        x,
        shape=(*x.shape[:lead], *where.kernel, *where.out),
        strides=(
            *x.strides[:lead],
            *(s * d for s, d in zip(steps, where.dilation, strict=True)),
            *(s * d for s, d in zip(steps, where.stride, strict=True)),
        ),
    )
