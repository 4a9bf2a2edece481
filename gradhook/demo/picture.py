"""gradflow.png: gradient flow by layer over training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullLocator

from gradhook.demo.monitor import History, Numbers
from gradhook.demo.training import Run

# Okabe and Ito's colours, told apart with every kind of colour vision
BLUE, ORANGE, VERMILION, GREY, INK = "#0072B2", "#E69F00", "#D55E00", "#8A8F98", "#22252A"
FAINT = "#D9DCE1"
MAX_COLUMNS = 230
DPI = 150


def draw(path: Path, run: Run, history: History, names: list[str], titles: list[str]) -> None:
    """Write the picture as PNG, about 1950 x 1200 pixels."""
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.02, hspace=0.04)
    figure = Figure(figsize=(13, 8), dpi=DPI, facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        4, 3, height_ratios=[0.95, 0.95, 4.2, 0.14], width_ratios=[4.6, 1.5, 1.1]
    )
    flow = figure.add_subplot(grid[2, 0])
    loss = figure.add_subplot(grid[0, 0], sharex=flow)
    right = figure.add_subplot(grid[1, 0], sharex=flow)
    spread = figure.add_subplot(grid[2, 1], sharey=flow)
    zeros = figure.add_subplot(grid[2, 2], sharey=flow)
    text = figure.add_subplot(grid[0:2, 1:3])
    _draw_loss(loss, run)
    _draw_accuracy(right, run)
    image = _draw_flow(flow, history.norm, run, _labels(names, titles))
    scale = figure.colorbar(image, cax=figure.add_subplot(grid[3, 0]), orientation="horizontal")
    _finish_scale(scale)
    _draw_spread(spread, history.norm, run.epochs)
    _draw_zeros(zeros, history.zeros, run.epochs)
    _draw_text(text, run, history, names)
    figure.savefig(path, pil_kwargs={"optimize": True})


def _labels(names: list[str], titles: list[str]) -> list[str]:
    return [f"{title}   $\\bf{{{name}}}$" for name, title in zip(names, titles, strict=True)]


def _bare(axes: Axes, *kept: str) -> None:
    """No frame but the sides named."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in kept)
        spine.set_color(GREY)
    axes.tick_params(colors=INK, labelsize=9, length=3, color=GREY)


def _heading(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10.5, color=INK, fontweight="bold", pad=6)


def _draw_loss(axes: Axes, run: Run) -> None:
    steps = np.arange(1, len(run.losses) + 1)
    losses = np.asarray(run.losses)
    axes.plot(steps, losses, color=BLUE, alpha=0.3, linewidth=0.8)
    per_epoch = len(losses) // run.epochs
    means = losses.reshape(run.epochs, per_epoch).mean(axis=1)
    axes.plot(_middles(run), means, color=BLUE, linewidth=1.8)
    if losses.max() > 10 * losses.min():
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    _heading(axes, "training loss (thin: each step, thick: mean of an epoch)")
    _bare(axes, "left")
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.tick_params(labelbottom=False, bottom=False)


def _draw_accuracy(axes: Axes, run: Run) -> None:
    values = 100 * np.asarray(run.accuracies)
    per_epoch = len(run.losses) // run.epochs
    ends = per_epoch * np.arange(1, run.epochs + 1)
    axes.plot(ends, values, color=VERMILION, linewidth=1.8, marker="o", markersize=3, clip_on=False)
    low = min(90.0, 10 * np.floor(values.min() / 10))
    axes.set_ylim(low, 100)
    axes.axhline(97, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        "97 %", (1, 97), xycoords=("axes fraction", "data"), fontsize=8.5, color=GREY,
        xytext=(4, 0), textcoords="offset points", va="center", annotation_clip=False,
    )  # fmt: skip
    _heading(axes, "test accuracy, %")
    _bare(axes, "left")
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.tick_params(labelbottom=False, bottom=False)


def _middles(run: Run) -> Any:
    per_epoch = len(run.losses) // run.epochs
    return per_epoch * (np.arange(run.epochs) + 0.5) + 0.5


def _draw_flow(axes: Axes, norm: Numbers, run: Run, labels: list[str]) -> AxesImage:
    """The heat map: a row a layer, a column a training step (or a few)."""
    n_steps, n_layers = norm.shape
    values = _log10(_binned(norm))
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, [1, 99.5]) if finite.size else (-1.0, 1.0)
    colours = colormaps["cividis"].with_extremes(bad="#F4C7C3")
    image = axes.imshow(
        np.ma.masked_invalid(values.T),
        aspect="auto",
        interpolation="nearest",
        cmap=colours,
        vmin=float(low),
        vmax=float(max(high, low + 1e-3)),
        extent=(0.5, n_steps + 0.5, n_layers - 0.5, -0.5),
    )
    axes.set_yticks(range(n_layers), labels)
    axes.set_xlim(0.5, n_steps + 0.5)
    _epoch_ticks(axes, run)
    axes.set_xlabel("epoch", fontsize=9, color=INK)
    _heading(axes, "gradient norm, by layer and training step (the gradient flows upwards)")
    _bare(axes)
    axes.tick_params(axis="y", length=0)
    for edge in np.arange(0.5, n_layers - 1):
        axes.axhline(edge, color="white", linewidth=1.6)
    return image


def _finish_scale(scale: Colorbar) -> None:
    places, texts = _round_norms(*scale.ax.get_xlim())
    scale.set_ticks(places, labels=texts)
    scale.ax.xaxis.set_minor_locator(NullLocator())
    _bare(scale.ax)
    scale.set_label(
        "2-norm of the gradient with respect to the layer's output, log scale "
        "(pink: not finite, or none)",
        fontsize=9,
        color=INK,
    )
    scale.ax.tick_params(labelsize=9, color=GREY, labelcolor=INK)


def _round_norms(low: float, high: float) -> tuple[list[float], list[str]]:
    """Places (log10) and labels of round norms between two log10 norms."""
    digits = (1, 2, 5) if high - low < 2.5 else (1,)
    decades = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    norms = [digit * 10.0**decade for decade in decades for digit in digits]
    shown = [norm for norm in norms if low <= np.log10(norm) <= high]
    step = -(-len(shown) // 9) or 1
    return [float(np.log10(norm)) for norm in shown[::step]], [
        f"{norm:.3g}" for norm in shown[::step]
    ]


def _epoch_ticks(axes: Axes, run: Run) -> None:
    per_epoch = len(run.losses) // run.epochs
    every = next(n for n in (1, 2, 5, 10, 20, 50, 100, 10**9) if run.epochs / n <= 20)
    shown = [k for k in range(1, run.epochs + 1) if every == 1 or k % every == 0 or k == 1]
    axes.set_xticks([per_epoch * (k - 0.5) + 0.5 for k in shown], [str(k) for k in shown])


def _binned(norm: Numbers) -> Numbers:
    """Geometric means over runs of steps, so that there are at most MAX_COLUMNS columns."""
    width = -(-len(norm) // MAX_COLUMNS)
    starts = np.arange(0, len(norm), width)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.add.reduceat(np.log(norm.astype(np.float64)), starts, axis=0)
    counts = np.diff(np.append(starts, len(norm)))[:, None]
    return np.exp(sums / counts).astype(np.float32)


def _log10(values: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(values)


def _draw_spread(axes: Axes, norm: Numbers, epochs: int) -> None:
    """Median, quartiles, 5th and 95th percentile of each layer, in the first and the last epoch."""
    per_epoch = len(norm) // epochs
    for rows, colour, shift in (
        (norm[:per_epoch], GREY, -0.16),
        (norm[-per_epoch:], BLUE, 0.16),
    ):
        logs = np.ma.masked_invalid(_log10(rows))
        for k in range(norm.shape[1]):
            seen = logs[:, k].compressed()
            if not seen.size:
                continue
            p5, p25, p50, p75, p95 = np.percentile(seen, [5, 25, 50, 75, 95])
            axes.plot([p5, p95], [k + shift] * 2, color=colour, linewidth=1.2)
            axes.plot(
                [p25, p75], [k + shift] * 2, color=colour, linewidth=4.5, solid_capstyle="round"
            )
            axes.plot([p50], [k + shift], "o", color="white", markersize=2.6, zorder=5)
    _heading(axes, "spread of the norm")
    places, texts = _round_norms(*axes.get_xlim())
    axes.set_xticks(places[-1::-2], texts[-1::-2])
    axes.set_xlabel("bar: half of the steps, line: 90 %", fontsize=9, color=INK)
    _bare(axes, "bottom")
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.tick_params(labelleft=False, left=False)
    axes.plot([], [], color=GREY, linewidth=4.5, label="first epoch")
    axes.plot([], [], color=BLUE, linewidth=4.5, label="last epoch")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, fontsize=8.5, frameon=False,
        handlelength=1.0, columnspacing=1.2, labelcolor=INK,
    )  # fmt: skip


def _draw_zeros(axes: Axes, zeros: Numbers, epochs: int) -> None:
    per_epoch = len(zeros) // epochs
    shares = 100 * np.nan_to_num(zeros[-per_epoch:].mean(axis=0))
    rows = np.arange(len(shares))
    axes.barh(rows, np.full(len(shares), 100.0), height=0.5, color="#EEF0F3")
    axes.barh(rows, shares, height=0.5, color=ORANGE)
    for k, share in enumerate(shares):
        inside = share > 62
        axes.annotate(
            f"{share:.0f}", (share, k), fontsize=8.5, color=INK, va="center",
            ha="right" if inside else "left", xytext=(-4 if inside else 4, 0),
            textcoords="offset points",
        )  # fmt: skip
    axes.set_xlim(0, 100)
    axes.set_xticks([0, 50, 100])
    _heading(axes, "zeros in it, %")
    axes.set_xlabel("share in the last epoch", fontsize=9, color=INK)
    _bare(axes, "bottom")
    axes.tick_params(labelleft=False, left=False)


def _draw_text(axes: Axes, run: Run, history: History, names: list[str]) -> None:
    axes.set_axis_off()
    per_epoch = len(history.norm) // run.epochs
    last = history.norm[-per_epoch:]
    medians = np.median(last, axis=0)
    broken = int(np.nansum(history.non_finite))
    weak, strong = int(np.nanargmin(medians)), int(np.nanargmax(medians))
    lines = [
        f"{run.epochs} epochs, {len(run.losses)} steps, {run.seconds:.1f} s on {run.device}",
        f"final training loss {np.mean(run.losses[-per_epoch:]):.2g}",
        f"strongest gradient in the last epoch: {names[strong]}",
        f"weakest: {names[weak]}, {medians[strong] / max(medians[weak], 1e-30):.1f} times smaller",
        "no inf or nan in any gradient" if not broken else f"{broken} inf or nan in gradients",
    ]
    axes.text(0, 1.04, "Gradient flow", fontsize=20, fontweight="bold", color=INK, va="top")
    axes.text(
        0,
        0.79,
        f"handwritten digits, test accuracy {run.accuracy:.1%}",
        fontsize=12,
        color=INK,
        va="top",
    )
    axes.text(0, 0.62, "\n".join(lines), fontsize=9.5, color=INK, va="top", linespacing=1.6)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
