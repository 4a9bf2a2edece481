"""The command line: gradhook info | demo | bench, or python -m gradhook and the same."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from gradhook import benchmarks, info


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 when it worked, 2 for a wrong call."""
    script = Path(sys.argv[0]).name == "gradhook"
    parser = argparse.ArgumentParser(
        prog="gradhook" if script else "python -m gradhook", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="print NumPy and BLAS, CuPy, devices and kernels")
    commands.add_parser(
        "demo",
        help="train a classifier on handwritten digits, with hooks on every layer",
        add_help=False,
    )
    commands.add_parser(
        "bench",
        help="run the benchmarks on CPU and GPU; write a table, JSON and a picture",
        add_help=False,
    )
    options, rest = parser.parse_known_args(arguments)
    if options.command == "demo":
        return _demo(rest)
    if options.command == "bench":
        return benchmarks.main(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    print(info.report())
    return 0


def _demo(arguments: Sequence[str]) -> int:
    try:
        demo = importlib.import_module("gradhook.demo.command")
        return int(demo.main(list(arguments)) or 0)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "gradhook":
            raise
        print(
            f"gradhook demo needs the package {error.name}, which is not installed; "
            "install the extra that brings it: pip install 'gradhook[demo]'",
            file=sys.stderr,
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
