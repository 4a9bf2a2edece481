"""What the suite tells pytest: its cases, the clock of each device, and where figures go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from bench import report
from bench.compare import CPU_TIME, Clock, Timing
from bench.rows import Row
from gradhook import backend


class Case(NamedTuple):
    """One row on one device ("cpu" or "cuda")."""

    device: str
    row: Row
    rounds: int

    @property
    def title(self) -> str:
        return f"{self.device}: {self.row.name}"


def clock(device: str) -> Clock:
    """CPU time on the CPU; wall time until the whole device is idle on a GPU."""
    if device == "cpu":
        return CPU_TIME
    return Clock(time.perf_counter, backend.cupy().cuda.runtime.deviceSynchronize)


class Suite:
    """A pytest plugin. started(case) and finished(case, row of results or error text) are told."""

    def __init__(
        self,
        cases: list[Case],
        started: Callable[[Case], None],
        finished: Callable[[Case, report.Row | str], None],
    ) -> None:
        self.cases, self.started, self.finished = cases, started, finished

    @pytest.fixture
    def suite(self) -> Suite:
        return self

    def pytest_generate_tests(self, metafunc: Any) -> None:
        cases = [
            pytest.param(
                case,
                id=case.title,
                marks=pytest.mark.benchmark(timer=clock(case.device).now, group=case.device),
            )
            for case in self.cases
        ]
        metafunc.parametrize("case", cases)

    def record(self, case: Case, timings: dict[str, Timing], benchmark: Any) -> None:
        found = {name: timing._asdict() for name, timing in timings.items()}
        benchmark.extra_info["contenders"] = found
        row: report.Row = {
            "device": case.device,
            "name": case.row.name,
            "rounds": case.rounds,
            "target": case.row.target if case.device == "cpu" else None,
            "copied_bytes": 4 * case.row.copied,
            "contenders": found,
        }
        self.finished(case, row)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            case = next(case for case in self.cases if f"[{case.title}]" in report.nodeid)
            self.finished(case, report.longreprtext)
