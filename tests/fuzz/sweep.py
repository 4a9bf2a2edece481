"""Every op of the table in a few small programs of its own, so that each is posed in every way;
and the table of what was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fuzz.checking import Wrong, check, must, run
from fuzz.operations import FEATURES, REFUSED, ROWS, OpStep
from fuzz.program import Line, Program

WAYS = (("view", "hooked"), ("non-contiguous",), ("in-place", "broadcast"))
LEAF = "[[0.5, -0.75, 1.25], [-1.5, 0.25, 2.0]]"


def programs_of(name: str, rows: int | None = 1) -> Iterator[Program]:
    """Programs of one op: its first rows (None: all) in each of WAYS."""
    for k in range(len(ROWS[name]))[:rows]:
        for way in WAYS:
            step = OpStep("r1", name, k, "x1", way)
            steps = (
                Line(f"x1 = run.leaf({LEAF})", ("leaf",)),
                step,
                Line("total = run.total(x1, r1)"),
            )
            passes = [Line("run.backward(total)", ("backward",))]
            if "in-place" not in way:
                passes.insert(0, Line("run.penalty(total, run.leaves)", ("create_graph",)))
            yield Program((), steps, tuple(passes), exact=False, smooth=step.smooth)


def swept(counts: Counter[str], torch: Any = None, rows: int | None = 1) -> list[str]:
    """Check every op and add what its programs had to `counts`. Returns what was wrong."""
    wrong = []
    for name in sorted(ROWS):
        for program in programs_of(name, rows):
            try:
                error = run(program).error
                must(error is None, program, "a program of one op ended by an error", error, None)
                counts.update(check(program, torch))
            except Wrong as error:
                wrong.append(str(error))
            except Exception as error:
                wrong.append(f"an oracle could not run: {error!r}\n\n{program.script()}")
            counts["programs"] += 1
    return wrong


def coverage(counts: Counter[str]) -> str:
    """Ops by features: in how many programs each op was posed in each way."""
    lines = [f"{'op':28}{'programs':>9}" + "".join(f"{f:>16}" for f in FEATURES)]
    for name in sorted(ROWS):
        cells = "".join(f"{counts[f'op {name}: {f}']:16}" for f in FEATURES)
        lines.append(f"{name:28}{counts[f'op {name}']:9}{cells}")
    lines.append(f"{len(ROWS) - len(uncovered(counts))} of {len(ROWS)} ops in every way")
    return "\n".join(lines)


def uncovered(counts: Counter[str]) -> list[str]:
    """Ops that were not posed in some way that they take."""
    ways = {n: [f for f in FEATURES if (n, f) not in REFUSED] for n in ROWS}
    return sorted(n for n in ROWS if not all(counts[f"op {n}: {f}"] for f in ways[n]))
