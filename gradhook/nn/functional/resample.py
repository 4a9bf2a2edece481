"""Interpolation of the spatial axes, one axis after the other."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.hooks.notices import caller_depth
from gradhook.nn.functional.dtype_checks import inexact
from gradhook.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor

# How many spatial axes a mode is for; None: any number.
MODES = {
    "nearest": None,
    "nearest-exact": None,
    "area": None,
    "linear": 1,
    "bilinear": 2,
    "bicubic": 2,
    "trilinear": 3,
}
AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """input, (batch, channels, *spatial), resampled to `size` or by scale_factor.

    mode: "nearest", "nearest-exact", "area" (the mean), "linear", "bilinear" or "trilinear" for 1,
    2, 3 spatial axes, "bicubic" for 2.
    align_corners: corner pixels keep their place. Floating or complex; "nearest" of any dtype,
    "area" floating; "bilinear" and "bicubic" round a picture of uint8. Errors: ValueError for wrong
    arguments, NotImplementedError for another mode and dtype.
    """
    n = input._a.ndim - 2
    if mode not in MODES or antialias:
        raise NotImplementedError(
            f"interpolate: found mode={mode!r}, antialias={antialias}, expected {list(MODES)}"
        )
    if MODES[mode] not in (None, n):
        raise NotImplementedError(
            f"Got {input._a.ndim}D input, but {mode} mode needs {(MODES[mode] or 0) + 2}D input"
        )
    if MODES[mode] is None and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "either size or scale_factor should be defined"
            if size is None
            else "only one of size or scale_factor should be defined"
        )
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    spatial = [int(s) for s in input._a.shape[2:]]
    factors: list[float | None] = [None] * n
    if size is not None:
        sizes = [int(s) for s in size] if isinstance(size, (tuple, list)) else [int(size)] * n
        if len(sizes) != n:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {spatial} and output size of {size}."
            )
    else:
        given = (
            list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * n
        )
        sizes = [math.floor(s * f) for s, f in zip(spatial, given, strict=True)]
        if not recompute_scale_factor:
            factors = given
    if mode == "area":
        return AREA[n](input, sizes)
    if MODES[mode] is None:
        for axis in range(n):
            input = _nearest(input, axis + 2, sizes[axis], factors[axis], mode)
        return input
    along = _cubic if mode == "bicubic" else _linear
    if n == 2 and input._a.dtype == np.uint8:
        for axis in (1, 0):
            wide = xp.cast(input, dtype=np.dtype("f4"))
            wide = along(wide, axis + 2, sizes[axis], factors[axis], bool(align_corners))
            whole = xp.clamp(xp.floor(xp.add(wide, 0.5)), low=0, high=255)
            input = xp.cast(whole, dtype=np.dtype(np.uint8))
        return input
    inexact(f"interpolate (mode {mode})", input)
    for axis in range(n):
        input = along(input, axis + 2, sizes[axis], factors[axis], bool(align_corners))
    return input


def _nearest(x: Tensor, axis: int, size: int, factor: float | None, mode: str) -> Tensor:
    old = int(x._a.shape[axis])
    step = 1 / factor if factor else old / size
    places: Any = np.arange(size, dtype=np.float32 if x._a.dtype.itemsize <= 4 else np.float64)
    if mode == "nearest-exact":
        chosen = np.floor((places + 0.5) * step)
    else:
        chosen = np.floor(places * places.dtype.type(step))
    return _select(x, chosen.astype(np.int64).clip(0, old - 1), axis)


def _select(x: Tensor, index: Any, axis: int) -> Tensor:
    if index.shape == (x._a.shape[axis],) and (index == np.arange(len(index))).all():
        return x
    where = make(ARRAY_MODULES[type(x._a)].asarray(index))
    return xp.index_select(x, where, axis=axis)


def _sources(old: int, size: int, factor: float | None, align_corners: bool) -> Any:
    """Where in the old axis each of `size` new places lies; it may lie outside."""
    places = np.arange(size, dtype=np.float64)
    if align_corners:
        return places * ((old - 1) / (size - 1) if size > 1 else 0.0)
    return (places + 0.5) * (1 / factor if factor else old / size) - 0.5


def _weight(share: Any, x: Tensor, axis: int) -> Tensor:
    """A number for each place of an axis, to multiply x with."""
    share = share.astype(x._a.dtype).reshape(-1, *(1,) * (x._a.ndim - 1 - axis))
    weight: Tensor = make(ARRAY_MODULES[type(x._a)].asarray(share))
    return weight


def _cubic(x: Tensor, axis: int, size: int, factor: float | None, align_corners: bool) -> Tensor:
    """Keys' cubic convolution with a = -0.75 over the four nearest places, edges repeated.

    Source: torch.nn.functional.interpolate.
    """
    old, a = int(x._a.shape[axis]), -0.75
    at = _sources(old, size, factor, align_corners)
    low = np.floor(at).astype(np.int64)
    t = at - low
    parts = []
    for k in range(-1, 3):
        d = np.abs(t - k)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weight = _weight(np.where(d <= 1, near, far), x, axis)
        parts.append(_select(x, (low + k).clip(0, old - 1), axis) * weight)
    result: Tensor = parts[0] + parts[1] + parts[2] + parts[3]
    return result


def _linear(x: Tensor, axis: int, size: int, factor: float | None, align_corners: bool) -> Tensor:
    old = int(x._a.shape[axis])
    at = np.maximum(_sources(old, size, factor, align_corners), 0.0)
    low = np.minimum(at.astype(np.int64), old - 1)
    high = np.minimum(low + 1, old - 1)
    weight = _weight(at - low, x, axis)
    below, above = _select(x, low, axis), _select(x, high, axis)
    result: Tensor = below + (above - below) * weight
    return result


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=caller_depth(),
    )


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """interpolate, shapes and dtypes as there; warns. Source: torch.nn.functional.upsample."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate by "nearest", shapes and dtypes as there; warns.

    Source: torch.nn.functional.upsample_nearest.
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate by "bilinear" with aligned corners, shapes and dtypes as there; warns. Source:
    torch.nn.functional.upsample_bilinear.
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
