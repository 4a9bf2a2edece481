"""Step times on the GPU against CuPy without autograd, a copy, and torch where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

from bench.compare import compare
from bench.gpu_check import Check
from bench.rows import ROWS, contenders
from bench.suite_plugin import clock
from bench.table import duration

ROUNDS = 7


def checks(test_device: bool) -> Iterator[Check]:
    if test_device:
        yield Check("times", "step times", None, "left out: this is no GPU")
        return
    for row in ROWS:
        if row.name.startswith("graph of"):
            continue
        found = compare(contenders(row, "cuda"), ROUNDS, clock=clock("cuda"))
        detail = duration(found["gradhook"].seconds)
        for name, timing in found.items():
            if name != "gradhook":
                shown = {"raw": "CuPy without autograd"}.get(name, name)
                detail += f", {timing.ratio:.2f} x {shown}"
        figures = {name: timing._asdict() for name, timing in found.items()}
        yield Check("times", row.name, None, detail, figures)
