"""gradhook bench: all rows on the CPU and, where there is one, on the GPU, with floors.

Writes a table (table.md), results.json, pytest-benchmark's own pytest-benchmark.json and a picture
(bench.png) to a folder.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import report
from bench.environment import restart_cleaned
from bench.rows import ROWS
from bench.suite_plugin import Case, Suite
from gradhook import backend

HERE = Path(__file__).resolve().parent
_QUICK_ROUNDS = 3


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gradhook bench",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="folder to write to")
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: the CPU, and the GPU where CuPy sees one",
    )
    parser.add_argument("--rows", default="", help="only rows whose name contains this text")
    parser.add_argument("--rounds", type=int, help="rounds a row instead of the row's own")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_ROUNDS} rounds a row")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run the suite. Returns 0; 1 when a row failed or there is no such device or folder."""
    options = parse(arguments)
    console = Console(highlight=False, soft_wrap=True)
    problem = _out_problem(options.out) or _device_problem(options.device)
    cases = [
        Case(device, row, options.rounds or (_QUICK_ROUNDS if options.quick else row.rounds))
        for device in _devices(options.device)
        for row in ROWS
        if options.rows in row.name
    ]
    if not problem and not cases:
        names = "\n  ".join(row.name for row in ROWS)
        problem = f"no row's name contains {options.rows!r}; the rows are:\n  {names}"
    if problem:
        print(f"gradhook bench: {problem}", file=sys.stderr)
        return 1
    results = report.empty(no_gpu=_no_gpu(options.device))
    console.print(report.heading(results), markup=False)
    failed = _measure(cases, options.out, results, console)
    report.write(options.out, results, console)
    return 1 if failed else 0


def _devices(wish: str) -> list[str]:
    if wish != "auto":
        return [wish]
    return ["cpu", "cuda"] if backend.is_available() else ["cpu"]


def _no_gpu(wish: str) -> str | None:
    """Why no GPU is measured; None when one is."""
    if wish == "cpu":
        return "not asked for (--device cpu)"
    return backend.why_not()


def _device_problem(wish: str) -> str | None:
    if wish != "cuda" or backend.is_available():
        return None
    return f"--device cuda, but there is no GPU: {backend.why_not()}; leave --device out"


def _out_problem(out: Path) -> str | None:
    """Make the folder. Returns what is wrong with it, before minutes are spent on figures."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        who = f"user {os.getuid()}" if hasattr(os, "getuid") else "this user"
        return (
            f"cannot write to {out} as {who}: {error.strerror}; in a container make the folder "
            'first (mkdir out), and give --user "$(id -u):$(id -g)" if that is not enough'
        )
    return None


def _measure(cases: list[Case], out: Path, results: report.Results, console: Console) -> int:
    """Run the rows under pytest-benchmark, progress shown. Returns how many failed."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=len(cases))

        def started(case: Case) -> None:
            bar.update(task, description=case.title)

        def finished(case: Case, outcome: report.Row | str) -> None:
            bar.advance(task)
            if isinstance(outcome, str):
                console.print(f"{case.title}: FAILED\n{outcome}", markup=False)
            else:
                results["rows"].append(outcome)
                console.print(report.line(outcome), markup=False)

        suite = Suite(cases, started, finished)
        pytest.main(_pytest_arguments(out), plugins=[suite])
    return len(cases) - len(results["rows"])


def _pytest_arguments(out: Path) -> list[str]:
    json = f"--benchmark-json={out / 'pytest-benchmark.json'}"
    alone = ["-c", str(HERE / "pytest.ini"), "--rootdir", str(HERE), "-p", "no:cacheprovider"]
    quiet = ["-p", "no:terminal", "--benchmark-quiet", "-s"]
    return [str(HERE / "suite_rows.py"), *alone, *quiet, json]


if __name__ == "__main__":
    restart_cleaned("bench.suite")
    sys.exit(main(sys.argv[1:]))
