"""What the demonstration prints: a progress bar, a table a layer, one line of result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gradhook.demo.data import N_TEST
from gradhook.demo.monitor import History
from gradhook.demo.training import Run


@contextmanager
def progress_bar(console: Console, epochs: int) -> Iterator[Callable[[Run], None]]:
    """A bar over the epochs; yields what to call after each."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs  {task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=epochs)

        def advance(run: Run) -> None:
            described = f"loss {run.losses[-1]:.4f}  test accuracy {run.accuracy:.1%}"
            bar.update(task, advance=1, description=described)

        yield advance


def layer_table(names: list[str], titles: list[str], history: History, epochs: int) -> Table:
    """One row a layer: its gradient in the first and the last epoch, and its activations."""
    per_epoch = len(history.norm) // epochs
    first, last = slice(0, per_epoch), slice(-per_epoch, None)
    table = Table(
        title="Gradients and activations by layer",
        caption="gradient: norm with respect to the layer's output, mean of an epoch\n"
        "zeros in it and output: last epoch; inf/nan: elements of it in all steps",
        caption_justify="left",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("layer", style="bold", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for heading in (
        "gradient:\n1st epoch",
        "\nlast",
        "\nzeros",
        "\ninf/nan",
        "output\nmean",
        "output\nstd",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for k, (name, title) in enumerate(zip(names, titles, strict=True)):
        broken = int(np.nansum(history.non_finite[:, k]))
        table.add_row(
            name,
            title,
            f"{history.norm[first, k].mean():.2e}",
            f"{history.norm[last, k].mean():.2e}",
            f"{history.zeros[last, k].mean():.1%}",
            f"[red]{broken}[/red]" if broken else "0",
            f"{history.mean[last, k].mean():.3f}",
            f"{history.std[last, k].mean():.3f}",
        )
    return table


def result_line(run: Run) -> str:
    """Accuracy, time and device in one line."""
    right = round(run.accuracy * N_TEST)
    library = "NumPy" if run.device == "cpu" else "CuPy"
    return (
        f"test accuracy {run.accuracy:.4f} ({right} of {N_TEST}) after {run.epochs} epochs, "
        f"{len(run.losses)} steps, in {run.seconds:.1f} s on {run.device} ({library})"
    )
