"""Run the oracle (PyTorch's recorded samples) over gradhook and compare with the stored passes.

python tests/oracle_run.py            fails when a unit of tests/oracle_baseline.json is lost
python tests/oracle_run.py --update   rewrites the baseline with the passes of today

The oracle lies outside the repository, in ../shared/oracle; without it this says so and succeeds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORACLE = ROOT.parent / "shared" / "oracle" / "oracle.py"
BASELINE = ROOT / "tests" / "oracle_baseline.json"
KINDS = "op,module"
TIER = "1"


def run_oracle(result: Path, baseline: Path | None, verbose: bool) -> int:
    """The oracle's exit status: 0 passed, 1 a pass was lost, 2 wrong call. Writes result (JSON)."""
    command = [sys.executable, str(ORACLE), "run", "gradhook", "--path", str(ROOT)]
    command += ["--kind", KINDS, "--tier", TIER, "--json", str(result), "--jobs", "2"]
    command += ["-v"] if verbose else ["-q"]
    if baseline is not None:
        command += ["--baseline", str(baseline)]
    return subprocess.run(command, check=False, cwd=ROOT).returncode


def write_baseline(result: Path, baseline: Path) -> int:
    """Keep the passes, sorted, one unit a line, in the form --baseline reads; return how many."""
    units = [
        json.dumps({key: unit[key] for key in ("kind", "uid", "core", "full")})
        for unit in json.loads(result.read_text(encoding="utf-8"))["units"]
        if unit["core"] or unit["full"]
    ]
    lines = ",\n".join(sorted(units))
    baseline.write_text(f'{{"units": [\n{lines}\n]}}\n', encoding="utf-8")
    return len(units)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="rewrite the baseline")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line a unit, with failures")
    options = parser.parse_args()
    if not ORACLE.is_file():
        print(f"oracle baseline: skipped, there is no {ORACLE} on this machine")
        return 0
    if not options.update and not BASELINE.is_file():
        print(f"oracle baseline: {BASELINE} is missing; make it with --update", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        status = run_oracle(result, None if options.update else BASELINE, options.verbose)
        if options.update and status == 0:
            print(f"oracle baseline: {write_baseline(result, BASELINE)} passes kept in {BASELINE}")
    return status


if __name__ == "__main__":
    sys.exit(main())
