"""The one pytest-benchmark test of the suite, parametrized over devices and rows by its plugin."""

from __future__ import annotations

from typing import Any

from bench.compare import compare
from bench.rows import contenders
from bench.suite_plugin import Case, Suite, clock


def test_row(benchmark: Any, case: Case, suite: Suite) -> None:
    suite.started(case)
    steps = contenders(case.row, case.device)
    timings = compare(steps, case.rounds, clock=clock(case.device), benchmark=benchmark)
    suite.record(case, timings, benchmark)
