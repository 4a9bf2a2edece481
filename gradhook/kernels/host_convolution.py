"""Convolutions of stride 1 and one group on NumPy arrays, natively: see kernels/convolution_cpu.h.

The gradients multiply what lies between the windows by zero, so they decline where infinite
numbers then gave NaN; other strides, groups and more than three axes are left to BLAS.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from gradhook.kernels.host_native import host_function, record
from gradhook.kernels.launch import NULL, dtype_name, fresh, is_plain, pointer
from gradhook.kernels.registry import declines_unbuilt
from gradhook.native import library

Array = Any
FILE = "convolution_cpu.h"
CONVOLVE = (
    "Convolution of, const T* in, const T* weight, const T* bias, T* out, "
    "const long long* offsets, const long long* in_starts, const long long* out_starts, "
    "int* not_a_number"
)
CONVOLVE_WEIGHT = (
    "Convolution of, const T* in, const T* grad, T* out, const long long* offsets, "
    "const long long* in_starts, const long long* out_starts"
)


class Flat:
    """Where windows lie in planes laid out flat. where: Geometry, with stride 1."""

    def __init__(self, where: Any) -> None:
        padded, out, spatial = where.padded, where.out, where.spatial
        self.steps = [prod(padded[k + 1 :]) for k in range(len(padded))]
        self.plane, self.out_length, self.in_length = prod(padded), out[-1], spatial[-1]
        along = [d * s for d, s in zip(where.dilation, self.steps, strict=True)]
        self.offsets = self._sums(where.kernel, along)
        self.out_starts = self._sums(out[:-1], self.steps[:-1])
        before = [a for a, _ in where.padding]
        first = sum([a * s for a, s in zip(before, self.steps, strict=True)])
        self.in_starts = self._sums(spatial[:-1], self.steps[:-1]) + first
        self.shift = int(self.offsets[-1])
        self.wide = int(self.out_starts[-1]) + self.out_length
        self.is_plain = not any(a or b for a, b in where.padding)
        self.back_offsets = self.shift - self.offsets
        self.back_starts = self.out_starts + self.shift
        self.inner = int(self.in_starts[-1]) + self.in_length

    @staticmethod
    def _sums(counts: tuple[int, ...], steps: list[int]) -> Array:
        """The sum of index times step for every index, in row-major order."""
        found = np.zeros(1, np.int64)
        for count, step in zip(counts, steps, strict=True):
            found = (found[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
        return found


@functools.lru_cache(256)
def flat(where: Any) -> Flat | None:
    """The Flat of a Geometry; None where there are no windows, or other strides than 1."""
    if set(where.stride) != {1} or len(where.spatial) > 3 or min((*where.out, *where.kernel)) < 1:
        return None
    return Flat(where)


def _taken(where: Any, groups: int, *arrays: Array | None) -> Flat | None:
    given = [a for a in arrays if a is not None]
    if groups != 1 or type(given[0]) is not np.ndarray or not library.is_available():
        return None
    if not all([a.size for a in given]):
        return None
    return flat(where) if is_plain(*given) else None


@declines_unbuilt
def convolution(x: Array, weight: Array, bias: Array | None, where: Any, groups: int) -> Array:
    """x: (batch, in, *spatial), weight: (out, in, *kernel), bias: (out,). Result: (batch, out,
    *windows); NotImplemented where it declines.
    """
    of = _taken(where, groups, x, weight, bias)
    fits = x.shape[1] == weight.shape[1] and (bias is None or bias.shape == weight.shape[:1])
    if of is None or not fits:  # what does not fit is the formula's to refuse
        return NotImplemented
    (batch, channels), outs, positions = x.shape[:2], weight.shape[0], prod(where.kernel)
    out = fresh(x, (batch, outs, *where.out), x.dtype)
    numbers = dict(
        batch=batch, outs=outs, channels=channels, positions=positions, plane=of.plane,
        wide=of.wide, in_rows=len(of.in_starts), in_length=of.in_length,
        out_rows=len(of.out_starts), out_length=of.out_length, by_out=channels * positions,
        by_channel=positions, by_position=1, as_it_is=of.is_plain,
    )  # fmt: skip
    bad = np.zeros((), np.int32)
    host_function(FILE, "convolve", CONVOLVE, dtype_name(x))(
        record(numbers), x, weight, pointer(bias), out, of.offsets, of.in_starts, of.out_starts, bad
    )
    return out


@declines_unbuilt
def convolution_input(grad: Array, weight: Array, where: Any, groups: int) -> Array:
    """grad: (batch, out, *windows), weight: (out, in, *kernel). Result: (batch, in, *spatial);
    NotImplemented where it declines.
    """
    of = _taken(where, groups, grad, weight)
    if of is None or grad.shape[1:] != (weight.shape[0], *where.out):
        return NotImplemented
    (batch, outs), channels, positions = grad.shape[:2], weight.shape[1], prod(where.kernel)
    out = fresh(grad, (batch, channels, *where.spatial), grad.dtype)
    numbers = dict(
        batch=batch, outs=channels, channels=outs, positions=positions,
        plane=of.plane + of.shift, wide=of.inner, in_rows=len(of.back_starts),
        in_length=of.out_length, out_rows=len(of.in_starts), out_length=of.in_length,
        by_out=positions, by_channel=channels * positions, by_position=1, as_it_is=0,
    )  # fmt: skip
    bad = np.zeros((), np.int32)
    host_function(FILE, "convolve", CONVOLVE, dtype_name(grad))(
        record(numbers), grad, weight, NULL, out, of.back_offsets, of.back_starts, of.in_starts, bad
    )
    return NotImplemented if bad else out


@declines_unbuilt
def convolution_weight(grad: Array, x: Array, where: Any, groups: int) -> Array:
    """grad: (batch, out, *windows), x: (batch, in, *spatial). Result: (out, in, *kernel);
    NotImplemented where it declines.
    """
    of = _taken(where, groups, grad, x)
    if of is None or grad.shape[0] != x.shape[0] or grad.shape[2:] != where.out:
        return NotImplemented
    (batch, outs), channels = grad.shape[:2], x.shape[1]
    out = fresh(x, (outs, channels, *where.kernel), x.dtype)
    numbers = dict(
        batch=batch, outs=outs, channels=channels, positions=prod(where.kernel), plane=of.plane,
        wide=of.wide, in_rows=len(of.in_starts), in_length=of.in_length,
        out_rows=len(of.out_starts), out_length=of.out_length, by_out=0, by_channel=0,
        by_position=0, as_it_is=of.is_plain,
    )  # fmt: skip
    host_function(FILE, "convolve_weight", CONVOLVE_WEIGHT, dtype_name(x))(
        record(numbers), x, grad, out, of.offsets, of.in_starts, of.out_starts
    )
    return NotImplemented if np.isnan(out).any() else out
