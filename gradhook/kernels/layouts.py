"""How the rows that a kernel works on lie in a C-contiguous array, for `Layout` in kernels/norms.cu
and scans.cu.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradhook.kernels.launch import THREADS, Kernel, elements_grid
from gradhook.kernels.rows import rows_grid

MOST_ELEMENTS = 1 << 31  # places are 32-bit numbers
ARGUMENTS = "unsigned across, unsigned far, unsigned near, unsigned run, unsigned jump"
LAYOUT = "    const Layout layout{across, far, near, run, jump};\n"
Shape = tuple[int, ...]


class Layout(NamedTuple):
    """rows, length: how many, and their elements. numbers: the structure of device code.

    inner: of how many rows neighbours in memory are, 1 where a row's own elements are. whole: the
    rows are one after the other.
    """

    rows: int
    length: int
    numbers: tuple[Any, ...]
    inner: int
    whole: bool

    @property
    def by_lanes(self) -> bool:
        """Whether a thread a row is better: it reads side by side with the next one."""
        return self.inner >= 32 and self.rows >= 256

    def is_narrow(self) -> bool:
        """Whether there are so few and long rows that most of a device would wait."""
        return self.rows < 16 and self.length > 1 << 16


def axes_of(axis: Any, ndim: int) -> Shape:
    """The axes of an argument, not negative: None for all, an int, or several."""
    if axis is None or axis == ():
        return tuple(range(ndim))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a + ndim if a < 0 else a for a in given))


@functools.cache
def layout(shape: Shape, axes: Shape) -> Layout | None:
    """The rows along `axes` (not negative) of an array of this shape, None where they lie in more
    than three parts, as along axes 0 and 2 of four.
    """
    if not 0 < prod(shape) < MOST_ELEMENTS:
        return None
    parts: list[tuple[bool, int]] = []
    for k, n in enumerate(shape):
        if n == 1:
            continue
        if parts and parts[-1][0] == (k in axes):
            parts[-1] = (parts[-1][0], parts[-1][1] * n)
        else:
            parts.append((k in axes, n))
    sizes = [n for _, n in parts]
    kinds = "".join("R" if along else "K" for along, _ in parts)
    if kinds == "RKR":  # of a batch's channels
        n, channels, run = sizes
        return _layout(channels, n * run, (1, run, 0, run, channels * run), 1)
    outer, length, inner = 1, 1, 1
    if kinds in ("KR", "KRK"):
        outer, length, inner = *sizes, *[1] * (3 - len(sizes))
    elif kinds in ("R", "RK"):
        outer, length, inner = 1, *sizes, *[1] * (2 - len(sizes))
    elif kinds == "K":
        outer = sizes[0]
    elif kinds:
        return None
    if inner == 1:
        return _layout(outer, length, (1, length, 0, length, 0), 1, whole=True)
    return _layout(outer * inner, length, (inner, length * inner, 1, 1, inner), inner)


def _layout(
    rows: int, length: int, numbers: tuple[int, ...], inner: int, whole: bool = False
) -> Layout:
    return Layout(rows, length, tuple(np.uint32(n) for n in numbers), inner, whole)


class Channels(NamedTuple):
    """A number for each channel: `inner` neighbours in memory have one, `period` are there."""

    inner: int
    period: int


@functools.cache
def channels(shape: Shape, of: Shape) -> Channels | None:
    """Where an array of shape `of` broadcasts to one of `shape`: its axes longer than 1, side by
    side and as long as there; None otherwise.
    """
    full = (1,) * (len(shape) - len(of)) + of
    long = [k for k, n in enumerate(full) if n != 1]
    if len(full) > len(shape) or any(full[k] != shape[k] for k in long):
        return None
    if not long:
        return Channels(1, 1)
    begin, end = long[0], long[-1] + 1
    if any(full[k] != shape[k] for k in range(begin, end)):
        return None
    return Channels(prod(shape[end:]), prod(shape[begin:end]))


def launch(kernel: Kernel, args: tuple[Any, ...], rows: Layout, nbytes: int) -> None:
    """Launch a kernel of `each_row`, whose layout, lanes, rows and length follow `args`."""
    lanes = rows.by_lanes
    grid, block = rows_grid(rows.rows, rows.length)
    if lanes:
        grid, block = elements_grid(rows.rows), (THREADS,)
    numbers = (*rows.numbers, np.int32(lanes), rows.rows, rows.length)
    kernel(grid, block, (*args, *numbers), nbytes)


def each_row(name: str, dtype: str, files: tuple[str, ...], arguments: str, call: str) -> Kernel:
    """The kernel that calls a row functor, `call`, with `row` and `layout`, for every row.

    arguments: before those that `launch` adds.
    """
    full = f"gradhook_{name}_{dtype}"
    body = (
        f'extern "C" __global__ void {full}({arguments},\n    {ARGUMENTS},\n'
        "    int lanes, long long rows, long long n) {\n"
        f"{LAYOUT}"
        f"    const auto each = [&](const auto& row) {{\n        {call}; }};\n"
        "    if (lanes) for_each_lane<F>(rows, n, each);\n"
        "    else for_each_row<F>(rows, n, each);\n}"
    )
    return Kernel(full, files, dtype, body)
