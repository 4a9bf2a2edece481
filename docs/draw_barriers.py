"""Draw docs/barriers.png, the picture of a hooked module call: python docs/draw_barriers.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

# The demo picture's colours: Okabe and Ito's
BLUE, VERMILION, GREY, DARK, INK = "#0072B2", "#D55E00", "#8A8F98", "#5B6068", "#22252A"
FAINT, PALE_BLUE, PALE_RED = "#F1F2F4", "#E3EFF7", "#FBE9DF"
ROW = 2.25  # the height of the graph


def box(axes: Any, x: float, y: float, size: tuple[float, float], text: str, **look: Any) -> None:
    """A rounded box with its centre at (x, y) and a text in it."""
    width, height = size
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=look.get("face", "white"),
            edgecolor=look.get("edge", GREY),
            linewidth=1.3,
        )
    )
    label(axes, x, y, text, look.get("colour", INK), look.get("weight", "normal"))


def label(axes: Any, x: float, y: float, text: str, colour: str = INK, weight: Any = "normal",
          size: float = 12, **where: Any) -> None:  # fmt: skip
    """A text, centred."""
    where = {"ha": "center", "va": "center", **where}
    axes.text(x, y, text, color=colour, fontsize=size, fontweight=weight, linespacing=1.25, **where)


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """A straight arrow."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=15, color=colour, linewidth=1.7
        )
    )


def draw(path: Path) -> None:
    """Write the picture as PNG, 1650 x 780 pixels."""
    figure = Figure(figsize=(11, 5.2), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 11)
    axes.set_ylim(-0.1, 5.1)
    axes.axis("off")
    graph(axes)
    hooks(axes)
    label(axes, 5.35, 4.85, "forward, left to right", DARK, "bold", ha="right")
    label(axes, 5.65, 4.85, "backward, right to left", VERMILION, "bold", ha="left")
    figure.savefig(path, pil_kwargs={"optimize": True})


def graph(axes: Any) -> None:
    """The call between its barriers, forward above and backward below."""
    axes.add_patch(
        FancyBboxPatch(
            (3.3, 1.3),
            4.4,
            1.95,
            boxstyle="round,pad=0,rounding_size=0.15",
            facecolor=FAINT,
            edgecolor="none",
        )
    )
    label(axes, 5.5, 3.05, "the module's forward", DARK, "bold")
    box(axes, 0.6, ROW, (0.8, 0.8), "input")
    box(axes, 10.4, ROW, (0.8, 0.8), "loss")
    barrier = {"face": PALE_BLUE, "edge": BLUE, "colour": BLUE, "weight": "bold"}
    box(axes, 2.4, ROW, (1.2, 1.3), "input\nbarrier", **barrier)
    box(axes, 8.6, ROW, (1.2, 1.3), "output\nbarrier", **barrier)
    box(axes, 5.5, ROW, (2.6, 0.8), "its nodes")
    ends = [(1.0, 1.8), (3.0, 4.2), (6.8, 8.0), (9.2, 10.0)]
    for left, right in ends:
        arrow(axes, (left, ROW + 0.16), (right, ROW + 0.16), GREY)
        arrow(axes, (right, ROW - 0.16), (left, ROW - 0.16), VERMILION)
    arrow(axes, (5.5, ROW - 0.42), (5.5, 0.82), VERMILION)
    box(axes, 5.5, 0.5, (2.2, 0.6), "parameters' .grad")


def hooks(axes: Any) -> None:
    """What fires where, numbered as it happens."""
    fired = [
        (8.9, 4.0, "1  gradients of all outputs, summed:\nfull_backward_pre hooks"),
        (8.9, 0.5, "2  each parameter:\npost-accumulate hooks"),
        (2.1, 4.0, "3  gradients of all inputs, summed:\nfull_backward hooks"),
        (2.1, 0.5, '4  all of it has run: when="complete",\nthen params-ready hooks'),
    ]
    for x, y, text in fired:
        box(axes, x, y, (3.6, 0.85), text, face=PALE_RED, edge=VERMILION)
    for x in (2.4, 8.6):
        arrow(axes, (x, 3.56), (x, ROW + 0.68), VERMILION)
    arrow(axes, (7.1, 0.5), (6.62, 0.5), VERMILION)
    arrow(axes, (3.9, 0.5), (4.38, 0.5), VERMILION)


if __name__ == "__main__":
    draw(Path(__file__).with_name("barriers.png"))
