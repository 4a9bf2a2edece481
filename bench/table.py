"""Measures all rows and prints the table."""

from __future__ import annotations

import platform

import numpy as np

from bench import children, hook_rows
from bench.compare import Timing, compare
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
    print("one thread, CPU time, medians;", ", ".join(versions), flush=True)
    print(_HEAD, flush=True)
    for row in ROWS:
        if only in row.name:
            timings = compare(contenders(row), rounds or row.rounds)
            print(_line(row, timings), flush=True)
    for hook_row in hook_rows.HOOK_ROWS:
        if only in f"added by a {hook_row.name}":
            added = hook_rows.measure(hook_row, rounds or 25)
            print(hook_rows.line(hook_row, *added), flush=True)
    if not only:
        print(_memory_line(torch is not None), flush=True)
        print(_import_line(torch is not None), flush=True)
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
    return line + (f"{raw.ratio:>9.2f}" if raw else "")


def _memory_line(with_torch: bool) -> str:
    own = children.memory_per_node("gradhook")
    line = f"{'memory a node of such a graph, bytes':<46}{own:>10.0f}"
    if with_torch:
        other = children.memory_per_node("torch")
        line += f"{other:>10.0f}{'-':>10}{own / other:>9.3f}"
    return line


def _import_line(with_torch: bool) -> str:
    own = children.import_seconds("gradhook")
    line = f"{'import, over import numpy':<46}{duration(own):>10}"
    if with_torch:
        other = children.import_seconds("torch")
        line += f"{duration(other):>10}{'-':>10}{own / other:>9.3f}"
    return line


def duration(seconds: float) -> str:
    """Three digits with a unit: "812 us", "1.36 ms"."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
