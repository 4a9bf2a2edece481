"""The one function that measures: contenders take turns, CPU time, medians."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Timing(NamedTuple):
    """seconds: median CPU time of one call.

    ratio: median over rounds of gradhook's time / this one's; low, high: its quartiles.
    """

    seconds: float
    ratio: float
    low: float
    high: float


def compare(
    contenders: dict[str, Callable[[], object]], rounds: int = 25, sample_seconds: float = 0.02
) -> dict[str, Timing]:
    """Time callables that do the same work, in turns, so that a busy machine slows all alike.

    contenders: by name, "gradhook" among them. A sample is as many calls as last sample_seconds;
    each contender gives one sample a round. Time: CPU time of this process (all are single-threaded
    here). The cyclic garbage collector stays on, as for a user, and is run before each sample.
    """
    calls = {name: _warm_up(step, sample_seconds) for name, step in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, step in contenders.items():
            samples[name].append(_sample(step, calls[name]))
    own = samples["gradhook"]
    return {name: _timing(own, other) for name, other in samples.items()}


def _sample(step: Callable[[], object], calls: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(calls):
        step()
    return (time.process_time() - start) / calls


def _warm_up(step: Callable[[], object], sample_seconds: float) -> int:
    """Call until recorders, caches and allocators have settled; returns calls a sample."""
    for _ in range(3):
        step()
    once = min(_sample(step, 1) for _ in range(3))
    return max(1, round(sample_seconds / max(once, 1e-6)))


def _timing(own: list[float], other: list[float]) -> Timing:
    ratios = [a / b for a, b in zip(own, other, strict=True)]
    if len(ratios) < 2:
        return Timing(other[0], ratios[0], ratios[0], ratios[0])
    low, _, high = statistics.quantiles(ratios, n=4)
    return Timing(statistics.median(other), statistics.median(ratios), low, high)
