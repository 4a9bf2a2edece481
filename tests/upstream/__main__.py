"""Run PyTorch's own hook tests against gradhook: cd tests && python -m upstream [--into FOLDER].

Exit status 1 when a test fails that exceptions.txt does not list, or a listed one passes. Without
the shim or the network it says so in one line and succeeds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from upstream.comparing import LIST, MODES, complaints, exceptions, table
from upstream.running import prepare, run
from upstream.sources import Unreachable, cache, fetched


def main() -> int:
    """Fetch, cut, run twice, compare."""
    parser = argparse.ArgumentParser(prog="python -m upstream", description=__doc__)
    parser.add_argument("--sources", type=Path, default=cache(), help="where PyTorch's files lie")
    parser.add_argument("--into", type=Path, help="keep the cut tests, reports and logs here")
    parser.add_argument("--target", default="gradhook", help="torch: how the tests do on PyTorch")
    options = parser.parse_args()
    try:
        sources = fetched(options.sources)
    except Unreachable as reason:
        print(f"PyTorch's own hook tests: skipped, {reason}")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = options.into or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        prepare(sources, folder)
        modes = MODES if options.target == "gradhook" else MODES[:1]
        return max([report(folder, mode, options.target) for mode in modes])


def report(folder: Path, mode: str, target: str) -> int:
    """Run one mode and print its table and what is wrong; 1 if something is."""
    found = run(folder, mode, target)
    listed = exceptions(LIST.read_text("utf-8"))[mode] if target == "gradhook" else {}
    print(f"\n{target}, {mode}: {len(listed)} listed", *table(found), sep="\n")
    wrong = complaints(found, listed)
    print(*wrong, sep="\n") if wrong else None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
