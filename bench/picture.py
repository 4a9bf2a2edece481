"""bench.png: the time of every row and of its floors, a panel a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from bench.report import RAW, Results, Row, heading
from bench.table import duration

# Okabe and Ito's colours, told apart with every kind of colour vision; a shape each as well
MARKS = {
    "gradhook": ("#0072B2", "o", 95),
    "torch": ("#D55E00", "D", 55),
    "raw": ("#5B616A", "|", 190),
    "copy": ("#009E73", "^", 60),
}
GREY, INK, FAINT = "#8A8F98", "#22252A", "#D9DCE1"


def draw(path: Path, results: Results) -> None:
    """Write the picture as PNG, about 1700 pixels wide."""
    devices = list(dict.fromkeys(row["device"] for row in results["rows"]))
    counts = [sum(row["device"] == device for row in results["rows"]) for device in devices]
    height = 2.0 + sum(0.48 * count + 1.0 for count in counts)
    figure = Figure(figsize=(11.5, height), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(devices), 1, squeeze=False, gridspec_kw={"height_ratios": [c + 1.4 for c in counts]}
    )
    for axes, device in zip(panels[:, 0], devices, strict=True):
        _panel(axes, [row for row in results["rows"] if row["device"] == device], device)
    figure.suptitle(
        "gradhook bench: time of one step, log scale (left is faster)",
        x=0.01, ha="left", fontsize=14, fontweight="bold", color=INK,
    )  # fmt: skip
    figure.supxlabel(heading(results), x=0.01, ha="left", fontsize=8.5, color=GREY)
    figure.savefig(path)


def _panel(axes: Any, rows: list[Row], device: str) -> None:
    names = {"gradhook": "gradhook", "torch": "torch", "raw": f"{RAW[device]}, no autograd"}
    names["copy"] = "copy of one array of that size"
    times = [[t["seconds"] for t in row["contenders"].values()] for row in rows]
    for y, (row, found) in enumerate(zip(rows, times, strict=True)):
        axes.plot([min(found), max(found)], [y, y], color=FAINT, linewidth=3, zorder=1)
        axes.annotate(
            _words(row), (1.01, y), xycoords=("axes fraction", "data"), fontsize=9, color=INK,
            va="center", annotation_clip=False,
        )  # fmt: skip
    for name, (colour, marker, size) in MARKS.items():
        points = [
            (row["contenders"][name]["seconds"], y)
            for y, row in enumerate(rows)
            if name in row["contenders"]
        ]
        if points:
            axes.scatter(
                *zip(*points, strict=True), s=size, color=colour, marker=marker,
                linewidths=2.4 if marker == "|" else 0, zorder=3 if name == "gradhook" else 4,
                label=names[name],
            )  # fmt: skip
    axes.set_xscale("log")
    low, high = min(map(min, times)), max(map(max, times))
    axes.set_xlim(low / 1.6, high * 1.6)
    axes.xaxis.set_major_formatter(lambda value, _: duration(value))
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if high > 300 * low else (1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=9.5, color=INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_title(device.upper(), loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=9, colors=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, fontsize=9,
        labelcolor=INK, handletextpad=0.3, columnspacing=1.4, borderaxespad=0.2,
    )  # fmt: skip


def _words(row: Row) -> str:
    """gradhook's time, and its ratio to torch where that was measured."""
    found = row["contenders"]
    words = duration(found["gradhook"]["seconds"])
    return f"{words}, {found['torch']['ratio']:.2f} x torch" if "torch" in found else words
