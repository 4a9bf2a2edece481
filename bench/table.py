"""Measures all rows and prints the table."""

from __future__ import annotations

import platform
from collections.abc import Callable

import numpy as np

from bench import children, hook_rows
from bench.compare import CPU_TIME, WALL_TIME, Timing, compare
from bench.environment import threads
from bench.rows import ROWS, Row, contenders, library

_HEAD = (
    f"{'':<46}{'gradhook':>10}{'torch':>10}{'NumPy':>10}{'/ torch':>9}{'quartiles':>13}"
    f"{'target':>8}{'':>9}{'/ NumPy':>9}"
)


def run(only: str = "", rounds: int | None = None) -> int:
    """Print the table. only: rows with this text in their name; rounds: instead of theirs."""
    torch = library("torch")
    versions = [f"Python {platform.python_version()}", f"NumPy {np.__version__}"]
    versions.append("torch not installed" if torch is None else f"torch {torch.__version__}")
    several = threads() > 1
    how = f"{threads()} threads, wall time" if several else "one thread, CPU time"
    print(f"{how}, medians;", ", ".join(versions), flush=True)
    print(_HEAD, flush=True)
    for row in ROWS:
        if only in row.name:
            clock = WALL_TIME if several else CPU_TIME
            timings = compare(contenders(row), rounds or row.rounds, clock=clock)
            print(_line(row, timings), flush=True)
    for hook_row in hook_rows.HOOK_ROWS:
        if only in f"added by a {hook_row.name}":
            added = hook_rows.measure(hook_row, rounds or 25)
            print(hook_rows.line(hook_row, *added), flush=True)
    if not only:
        for name, measure, words, target in CHILD_ROWS:
            print(_child_line(name, measure, words, torch is not None, target), flush=True)
    return 0


def _line(row: Row, timings: dict[str, Timing]) -> str:
    torch, raw = timings.get("torch"), timings.get("raw")
    line = f"{row.name:<46}{duration(timings['gradhook'].seconds):>10}"
    line += f"{duration(torch.seconds) if torch else '-':>10}"
    line += f"{duration(raw.seconds) if raw else '-':>10}"
    line += (
        f"{torch.ratio:>9.3f}{torch.low:>7.2f}-{torch.high:.2f} " if torch else f"{'-':>9}{'':>13}"
    )
    line += f"{row.target:>8.2f}" if row.target else f"{'':>8}"
    verdict = (
        "" if not torch or not row.target else "met" if torch.ratio <= row.target else "NOT met"
    )
    line += f"{verdict:>9}"
    line += f"{raw.ratio:>9.2f}" if raw else ""
    others = [f"{name} {timings[name].ratio:.2f}" for name in row.others if name in timings]
    return line + (f"  / {', '.join(others)}" if others else "")


def _child_line(
    name: str, measure: Callable[[str], float], words: Callable[[float], str], with_torch: bool,
    target: float | None = None,
) -> str:  # fmt: skip
    """A line of what a process of its own measures, for gradhook and for torch."""
    own = measure("gradhook")
    line = f"{name:<46}{words(own):>10}"
    if not with_torch:
        return line
    other = measure("torch")
    line += f"{words(other):>10}{'-':>10}{own / other:>9.3f}"
    if target is None:
        return line
    return f"{line}{'':>13}{target:>8.2f}{'met' if own <= target * other else 'NOT met':>9}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """Three digits with a unit: "812 us", "1.36 ms"."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


CHILD_ROWS: list[tuple[str, Callable[[str], float], Callable[[float], str], float | None]] = [
    ("peak memory of a 20-layer MLP step, MB", children.peak_memory, _whole, 0.8),
    ("memory a node of such a graph, bytes", children.memory_per_node, _whole, None),
    ("import, over import numpy", children.import_seconds, duration, None),
]
