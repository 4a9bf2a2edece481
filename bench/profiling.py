"""Where the time of one row goes: cProfile's hottest functions of gradhook."""

from __future__ import annotations

import cProfile
import pstats
import sys

from bench.rows import ROWS, library


def profile(text: str, calls: int = 200, functions: int = 30) -> int:
    """Print the functions of the first row whose name contains text, by their own time."""
    found = [row for row in ROWS if text in row.name]
    if not found:
        names = "\n  ".join(row.name for row in ROWS)
        print(f"no row's name contains {text!r}; the rows are:\n  {names}", file=sys.stderr)
        return 2
    step = found[0].build(library("gradhook")).step
    for _ in range(10):
        step()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(calls):
        step()
    profiler.disable()
    print(f"{found[0].name}, {calls} calls")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(functions)
    return 0
