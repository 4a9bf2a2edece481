"""Results of the suite: the JSON, the table, and the lines printed while it runs."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from rich.console import Console

from bench.rows import library
from bench.table import duration
from gradhook import backend

RAW = {"cpu": "NumPy", "cuda": "CuPy"}


class Row(TypedDict):
    """One row on one device. contenders: a bench.compare.Timing each, as a dictionary."""

    device: str
    name: str
    rounds: int
    target: float | None
    copied_bytes: int
    contenders: dict[str, dict[str, float]]


class Results(TypedDict):
    """no_gpu: why no GPU was measured, None when one was."""

    date: str
    versions: dict[str, str | None]
    machine: dict[str, Any]
    no_gpu: str | None
    rows: list[Row]


def empty(no_gpu: str | None) -> Results:
    """Results without rows: when, where and with which versions."""
    torch = library("torch")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {
            "gradhook": _version(),
            "Python": platform.python_version(),
            "NumPy": np.__version__,
            "CuPy": backend.cupy_version(),
            "torch": None if torch is None else str(torch.__version__),
        },
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "gpu": None if no_gpu else backend.device_name(0),
        },
        "no_gpu": no_gpu,
        "rows": [],
    }


def _version() -> str:
    try:
        return importlib.metadata.version("gradhook")
    except importlib.metadata.PackageNotFoundError:
        return "from its sources"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def heading(results: Results) -> str:
    """What is measured on, in two or three lines."""
    versions = [
        f"{name} {version}" if version else f"{name} not installed"
        for name, version in results["versions"].items()
    ]
    gpu = f"GPU: {results['machine']['gpu']} (wall time)"
    if results["no_gpu"]:
        gpu = f"GPU: not measured, this is the CPU suite only: {results['no_gpu']}"
    cpu = f"CPU: {results['machine']['cpu']}, one thread, CPU time; medians"
    return "\n".join([", ".join(versions), cpu, gpu])


def line(row: Row) -> str:
    """One row for the console: times, and ratios to what was measured in the same rounds."""
    found = row["contenders"]
    cells = [f"{duration(found['gradhook']['seconds']):>8}"]
    for name in ("torch", "raw", "copy"):
        if name in found:
            shown = RAW[row["device"]] if name == "raw" else name
            cells.append(f"{found[name]['ratio']:.2f} x {shown}")
    return f"{row['device']:<5}{row['name']:<46}" + "   ".join(cells)


def table(results: Results) -> str:
    """Markdown: a table a device."""
    parts = ["# gradhook bench", results["date"], *heading(results).splitlines()]
    for device in dict.fromkeys(row["device"] for row in results["rows"]):
        rows = [row for row in results["rows"] if row["device"] == device]
        parts += [f"## {device}", _device_table(rows, RAW[device])]
    parts.append(
        "Times are medians of one step. A ratio is gradhook's time over the other's, the median "
        "over rounds in which both took turns, with its quartiles. The floors are the same "
        "arithmetic without autograd, and a copy of one array of the row's size."
    )
    return "\n\n".join(parts) + "\n"


def _device_table(rows: list[Row], raw: str) -> str:
    names = {"torch": "torch", "raw": raw, "copy": "copy"}
    used = [name for name in names if any(name in row["contenders"] for row in rows)]
    head = ["row", "gradhook", *[names[n] for n in used], *[f"/ {names[n]}" for n in used]]
    lines = [head, [":--", *["--:"] * (len(head) - 1)]]
    for row in rows:
        found = row["contenders"]
        times = [_time(row, name) for name in used]
        ratios = [_ratio(found[name]) if name in found else "" for name in used]
        lines.append([row["name"], duration(found["gradhook"]["seconds"]), *times, *ratios])
    widths = [max(len(cells[i]) for cells in lines) for i in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(cells, widths, strict=True)) + " |"
        for cells in lines
    )


def _time(row: Row, name: str) -> str:
    timing = row["contenders"].get(name)
    if timing is None:
        return ""
    if name != "copy":
        return duration(timing["seconds"])
    rate = 2 * row["copied_bytes"] / timing["seconds"] / 1e9  # each byte is read and written
    return f"{duration(timing['seconds'])} ({rate:.3g} GB/s)"


def _ratio(timing: dict[str, float]) -> str:
    return f"{timing['ratio']:.2f} ({timing['low']:.2f}-{timing['high']:.2f})"


def write(out: Path, results: Results, console: Console) -> None:
    """table.md, results.json and bench.png."""
    text = table(results)
    (out / "table.md").write_text(text, "utf-8")
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if results["rows"]:
        importlib.import_module("bench.picture").draw(out / "bench.png", results)
    console.print(f"\n{text}", markup=False)
    names = sorted(path.name for path in out.iterdir() if path.is_file())
    console.print(f"wrote {', '.join(names)} to {out}", markup=False)
