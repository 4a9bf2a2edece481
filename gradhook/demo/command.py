"""python -m gradhook demo: its options and the order of its parts."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from pathlib import Path

from rich.console import Console

import gradhook
from gradhook import backend
from gradhook.demo import data, report
from gradhook.demo.model import classifier
from gradhook.demo.monitor import Monitor
from gradhook.demo.picture import draw
from gradhook.demo.training import Run, train


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return number


def _png(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"expected a file name that ends in .png, found {text!r}")
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"there is no folder {str(path.parent)!r}; make it first, or choose another place"
        )
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gradhook demo",
        description="Train a classifier on handwritten digits and watch its gradients by hooks.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--epochs", type=_positive, default=20, help="passes over the images")
    parser.add_argument("--seed", type=int, default=0, help="of weights and order of images")
    parser.add_argument("--output", type=_png, default=Path("gradflow.png"), help="the picture")
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: CUDA where CuPy sees a device, else the CPU",
    )
    parser.add_argument("--quiet", action="store_true", help="print the result line only")
    return parser


def main(arguments: list[str]) -> int:
    """Train, print the table and the result, draw the picture. Returns the exit status."""
    options = _parser().parse_args(arguments)
    device = options.device
    if device == "auto":
        device = "cuda" if backend.is_available() else "cpu"
    elif device == "cuda" and not backend.is_available():
        print(
            f"gradhook demo: --device cuda, but there is no CUDA device: {backend.why_not()}; "
            "leave --device out to run on the CPU",
            file=sys.stderr,
        )
        return 1
    console = Console()
    run = Run(device=device, seed=options.seed, epochs=options.epochs)
    gradhook.manual_seed(run.seed)
    model = classifier().to(device)
    monitor = Monitor(model)
    digits = data.load(device)
    with contextlib.ExitStack() as stack:
        # such small matrices gain nothing from threads; where cores are busy they lose much
        stack.enter_context(importlib.import_module("threadpoolctl").threadpool_limits(1))
        if options.quiet:
            train(model, digits, monitor, run, lambda run: None)
        else:
            bar = stack.enter_context(report.progress_bar(console, run.epochs))
            train(model, digits, monitor, run, bar)
    monitor.remove()
    history = monitor.history()
    if not options.quiet:
        console.print(report.layer_table(monitor.names, monitor.titles, history, run.epochs))
    draw(options.output, run, history, monitor.names, monitor.titles)
    console.print(report.result_line(run), highlight=False, soft_wrap=True)
    if not options.quiet:
        console.print(f"gradient flow by layer: {options.output}", highlight=False, soft_wrap=True)
    return 0
