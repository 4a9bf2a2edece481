"""python -m bench: the table. python -m bench --profile NAME: where the time of one row goes."""

from __future__ import annotations

import argparse
import sys

from bench.environment import restart_cleaned


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose name contains this text")
    parser.add_argument("--rounds", type=int, help="rounds a row (default: the row's own)")
    parser.add_argument(
        "--ops", nargs="?", const="", help="each table op against its NumPy calls, by name"
    )
    parser.add_argument("--threads", type=int, default=1, help="of every library; then wall time")
    parser.add_argument("--profile", metavar="TEXT", help="profile gradhook on the row named so")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.profile:
        from bench.profiling import profile

        return profile(options.profile)
    if options.ops is not None:
        from bench import op_rows

        return op_rows.run(options.ops, options.rounds)
    from bench.table import run

    return run(options.rows, options.rounds)


if __name__ == "__main__":
    restart_cleaned(threads=parse(sys.argv[1:]).threads)
    sys.exit(main(sys.argv[1:]))
