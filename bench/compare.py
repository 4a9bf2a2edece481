"""The one function that measures: contenders take turns, medians; CPU time, on a GPU wall time."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

Step = Callable[[], object]


class Clock(NamedTuple):
    """now: seconds, CPU time or wall time. synchronize: waits until the device's work is done."""

    now: Callable[[], float]
    synchronize: Callable[[], object]


CPU_TIME = Clock(time.process_time, lambda: None)
WALL_TIME = Clock(time.perf_counter, lambda: None)  # of several threads


class Timing(NamedTuple):
    """seconds: median time of one call.

    ratio: median over rounds of gradhook's time / this one's; low, high: its quartiles.
    """

    seconds: float
    ratio: float
    low: float
    high: float


def compare(
    contenders: dict[str, Step],
    rounds: int = 25,
    sample_seconds: float = 0.02,
    clock: Clock = CPU_TIME,
    benchmark: Any = None,
) -> dict[str, Timing]:
    """Time callables that do the same work, in turns, so that a busy machine slows all alike.

    contenders: by name, "gradhook" among them. A sample is as many calls as last sample_seconds;
    each contender gives one sample a round. Time: CPU time of this process (all are single-threaded
    here), on a GPU wall time until the device is idle. The cyclic garbage collector stays on, as
    for a user, and is run before each sample. benchmark: pytest-benchmark's fixture, made with this
    clock; it then takes gradhook's samples and drives the rounds, and its record gets the calls
    a sample.
    """
    calls = {name: _warm_up(step, sample_seconds, clock) for name, step in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}

    def take(names: list[str]) -> None:
        for name in names:
            samples[name].append(_sample(contenders[name], calls[name], clock))

    if benchmark is None:
        for _ in range(rounds):
            take(list(contenders))
    else:
        others = [name for name in contenders if name != "gradhook"]
        samples["gradhook"] = _driven(
            benchmark,
            contenders["gradhook"],
            calls["gradhook"],
            lambda: take(others),
            rounds,
            clock,
        )
    own = samples["gradhook"]
    return {name: _timing(own, other) for name, other in samples.items()}


def lowest(
    contenders: dict[str, Step], rounds: int = 25, sample_seconds: float = 0.02
) -> dict[str, float]:
    """The shortest sample of each, seconds a call, in the same turns: for differences, which
    medians of a busy machine drown in noise."""
    calls = {name: _warm_up(step, sample_seconds, CPU_TIME) for name, step in contenders.items()}
    found = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, step in contenders.items():
            found[name] = min(found[name], _sample(step, calls[name]))
    return found


def _driven(
    benchmark: Any, step: Step, calls: int, before: Step, rounds: int, clock: Clock
) -> list[float]:
    """Samples of a step, seconds a call, that pytest-benchmark takes, `before` done each time."""

    def setup() -> None:
        before()
        _prepare(clock)

    benchmark.extra_info["calls_a_sample"] = calls
    benchmark.pedantic(_repeated, args=(step, calls, clock), setup=setup, rounds=rounds)
    return [seconds / calls for seconds in benchmark.stats.stats.data]


def _prepare(clock: Clock) -> None:
    gc.collect()
    clock.synchronize()


def _repeated(step: Step, calls: int, clock: Clock) -> None:
    for _ in range(calls):
        step()
    clock.synchronize()


def _sample(step: Step, calls: int, clock: Clock = CPU_TIME) -> float:
    _prepare(clock)
    start = clock.now()
    _repeated(step, calls, clock)
    return (clock.now() - start) / calls


def _warm_up(step: Step, sample_seconds: float, clock: Clock) -> int:
    """Call until recorders, caches and allocators have settled; returns calls a sample."""
    for _ in range(3):
        step()
    once = min(_sample(step, 1, clock) for _ in range(3))
    return max(1, round(sample_seconds / max(once, 1e-6)))


def _timing(own: list[float], other: list[float]) -> Timing:
    ratios = [a / b for a, b in zip(own, other, strict=True)]
    if len(ratios) < 2:
        return Timing(other[0], ratios[0], ratios[0], ratios[0])
    low, _, high = statistics.quantiles(ratios, n=4)
    return Timing(statistics.median(other), statistics.median(ratios), low, high)
