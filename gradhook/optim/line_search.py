"""A line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Point(NamedTuple):
    """A place on the line: t, the function's value f, its gradient g and its slope along the line,
    a scalar of the gradient's dtype.
    """

    t: Any
    f: Any
    g: Any
    slope: Any


def cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with their slopes is least, within bounds (None: between
    the points); the middle of the bounds where it has no minimum. Source: Nocedal and Wright,
    Numerical Optimization, (3.59).
    """
    a, b = (a, b) if a.t <= b.t else (b, a)
    low, high = bounds or (a.t, b.t)
    middle = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = middle**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    root = np.sqrt(square)
    t = b.t - (b.t - a.t) * ((b.slope + root - middle) / (b.slope - a.slope + 2 * root))
    return min(max(t, low), high)


def strong_wolfe(
    evaluate: Callable[[Any], Point],
    start: Point,
    t: Any,
    longest: float,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
    c1: float = 1e-4,
    c2: float = 0.9,
) -> tuple[Point, int]:
    """(a point that meets the strong Wolfe conditions, evaluations); the best one found where there
    are none left.

    evaluate: the point at t; start: that at 0; longest: the largest absolute component of the
    direction; max_ls: how often to search on. Source: Nocedal and Wright, algorithms 3.5 and 3.6,
    with the safeguards of minFunc (Schmidt, 2005), as torch.optim.LBFGS.
    """
    before, new, count = start, evaluate(t), 1
    ends = [start, new]

    # In the precision of the gradient: close to the minimum the decrease to be shown is less than f
    # resolves, and a step that shows none must not count as too high (as torch.optim.LBFGS).
    precision = type(start.slope)

    def too_high(p: Point) -> bool:
        return bool(p.f > precision(start.f + c1 * p.t * start.slope))

    def flat(p: Point) -> bool:
        return bool(abs(p.slope) <= -c2 * start.slope)

    searched = 0
    while searched < max_ls:
        past = too_high(new) or (searched > 1 and new.f >= before.f)
        if not past and flat(new):
            return new, count
        if past or new.slope >= 0:
            ends = [before, new]
            break
        bounds = (new.t + 0.01 * (new.t - before.t), new.t * 10)
        before, new = new, evaluate(cubic_minimum(before, new, bounds))
        count += 1
        searched += 1
        ends = [start, new]
    return _zoom(
        evaluate, ends, too_high, flat, longest, tolerance_change, max_ls - searched, count
    )


def _zoom(
    evaluate: Callable[[Any], Point],
    ends: list[Point],
    too_high: Callable[[Point], bool],
    flat: Callable[[Point], bool],
    longest: float,
    tolerance_change: float,
    left: int,
    count: int,
) -> tuple[Point, int]:
    """Narrow the bracket until its lower end meets the conditions."""
    stuck = False
    low = 0 if ends[0].f <= ends[1].f else 1
    for _ in range(left):
        if abs(ends[1].t - ends[0].t) * longest < tolerance_change:
            break
        t, stuck = _inside(cubic_minimum(ends[0], ends[1]), ends, stuck)
        new = evaluate(t)
        count += 1
        if too_high(new) or new.f >= ends[low].f:
            ends[1 - low] = new
            low = 0 if ends[0].f <= ends[1].f else 1
            continue
        found = flat(new)
        if not found and new.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = new
        if found:
            break
    return ends[low], count


def _inside(t: Any, ends: list[Point], stuck: bool) -> tuple[Any, bool]:
    """(t away from the bracket's ends when it comes close twice or leaves it, whether it came
    close).
    """
    least, most = sorted((ends[0].t, ends[1].t))
    margin = 0.1 * (most - least)
    if not min(most - t, t - least) < margin:
        return t, False
    if not (stuck or t >= most or t <= least):
        return t, True
    return (most - margin if abs(t - most) < abs(t - least) else least + margin), False
