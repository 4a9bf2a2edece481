"""How an axis goes on beyond its ends, under SciPy's names, as runs of positions: slices instead of
index arrays, so nothing is sent to a device.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

MODES = ("reflect", "constant", "nearest", "mirror", "wrap")


class Run(NamedTuple):
    """Positions start..stop stand for first, first + step, ... of the axis; step is 1, -1 or 0."""

    start: int
    stop: int
    first: int
    step: int


def position(j: int, n: int, mode: str) -> int:
    """The element of an axis of length n that stands at j, outside of it.

    reflect: d c b a | a b c d | d c b a; mirror: d c b | a b c d | c b a; nearest: the end repeats;
    wrap: it starts again. Source: scipy.ndimage.
    """
    if mode == "nearest":
        return 0 if j < 0 else n - 1
    if mode == "wrap":
        return j % n
    period = 2 * n if mode == "reflect" else 2 * n - 2
    if period == 0:
        return 0
    r = j % period
    return r if r < n else (period - 1 - r if mode == "reflect" else period - r)


@functools.lru_cache(maxsize=1024)
def runs(n: int, before: int, after: int, mode: str) -> tuple[Run, ...]:
    """What stands beyond an axis of length n, `before` and `after` elements, as runs; positions
    count from the first of them. Zeros are left out.
    """
    if mode == "constant" or n == 0:
        return ()
    found: list[Run] = []
    for ends in (range(-before, 0), range(n, n + after)):
        fresh = True
        for j in ends:
            p = position(j, n, mode)
            if not fresh:
                last = found[-1]
                length = last.stop - last.start
                step = p - last.first if length == 1 else last.step
                if step in (1, -1, 0) and p == last.first + step * length:
                    found[-1] = last._replace(stop=last.stop + 1, step=step)
                    continue
            fresh = False
            found.append(Run(j + before, j + before + 1, p, 1))
    return tuple(found)


def _along(axis: int, ndim: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * axis + (part,) + (slice(None),) * (ndim - axis - 1)


def _source(run: Run) -> slice:
    length = run.stop - run.start
    if run.step == 0:
        return slice(run.first, run.first + 1)
    if run.step == 1:
        return slice(run.first, run.first + length)
    end = run.first - length
    return slice(run.first, None if end < 0 else end, -1)


def extended(xp: Any, x: Any, widths: tuple[tuple[int, int], ...], mode: str) -> Any:
    """x with widths[k] = (before, after) elements more along axis k. Result: dtype of x."""
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        n = x.shape[axis]
        shape = (*x.shape[:axis], n + before + after, *x.shape[axis + 1 :])
        out = xp.zeros(shape, x.dtype)
        out[_along(axis, x.ndim, slice(before, before + n))] = x
        for run in runs(n, before, after, mode):
            place = _along(axis, x.ndim, slice(run.start, run.stop))
            out[place] = x[_along(axis, x.ndim, _source(run))]
        x = out
    return x


def folded(xp: Any, e: Any, widths: tuple[tuple[int, int], ...], mode: str) -> Any:
    """The transpose of `extended`: what stands beyond the ends is added where it came from."""
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        n = e.shape[axis] - before - after
        out = e[_along(axis, e.ndim, slice(before, before + n))].copy()
        for run in runs(n, before, after, mode):
            part = e[_along(axis, e.ndim, slice(run.start, run.stop))]
            if run.step == 0:
                part = part.sum(axis=axis, keepdims=True)
            out[_along(axis, e.ndim, _source(run))] += part
        e = out
    return e
