"""Run the oracle (PyTorch's recorded samples) over gradhook: every unit passes in full or stands in
tests/oracle_exceptions.txt with its reason.

python tests/oracle_run.py                    float64: operations, modules, optimizers, schedulers
python tests/oracle_run.py --dtypes float64 float32 complex64 int64 --record
python tests/oracle_run.py --dtypes float32 --device cuda --kinds op --tier 2 --limit 3
python tests/oracle_run.py ... --prune        takes out of the list what passes today

A unit that neither passes nor is listed fails the run, and so does a listed one that passes. The
oracle lies outside the repository, in ../shared/oracle; without it this says so and succeeds. A
corpus that is not there (it has float64) is recorded into ~/.cache/gradhook/oracle by --record,
which needs torch, expecttest, hypothesis and scipy; without --record it is left out, saying so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ORACLE = ROOT.parent / "shared" / "oracle"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gradhook" / "oracle"
EXCEPTIONS = ROOT / "tests" / "oracle_exceptions.txt"
DEVICE = ROOT / "tests" / "oracle_device.py"


@dataclass(frozen=True)
class Listed:
    """A line of the list: `kind unit | dtypes | core or full | reason`. level: what it fails."""

    kind: str
    unit: str
    dtypes: tuple[str, ...]
    level: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.unit} | {' '.join(self.dtypes)} | {self.level} | {self.reason}"


def read(text: str) -> list[Listed]:
    """The lines of the list. ValueError for one of another form, or one without a reason."""
    found = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|", 3)]
        if len(parts) != 4 or not all(parts) or parts[2] not in ("core", "full"):
            form = "kind unit | dtypes | core or full | reason"
            raise ValueError(f"expected '{form}', found {line!r}")
        kind, _, unit = parts[0].partition(" ")
        found.append(Listed(kind, unit, tuple(parts[1].split()), parts[2], parts[3]))
    return found


def judge(
    units: Iterable[dict[str, Any]], listed: list[Listed], dtype: str, device: str = ""
) -> tuple[list[str], list[tuple[Listed, str]]]:
    """What fails and is not listed, in words, and (line, dtype) of what is listed wrongly.

    On a device the lines of `<dtype>@<device>` count, and those of the dtype, which may pass there.
    """
    own = f"{dtype}@{device}" if device else dtype
    unlisted, stale = [], []
    for unit in units:
        level = None if unit["full"] else "full" if unit["core"] else "core"
        lines = [x for x in listed if (x.kind, x.unit) == (unit["kind"], unit["uid"])]
        known = {x.level for x in lines if {own, dtype} & set(x.dtypes)}
        if level is not None and level not in known and "core" not in known:
            why = "; ".join(f"{f[0]} [{f[1]}] {f[3]}"[:160] for f in unit["fails"][:3])
            unlisted.append(f"{unit['kind']} {unit['uid']} | {own} | {level} | {why}")
        passed = [x for x in lines if own in x.dtypes and x.level != level]
        stale += [(x, own) for x in passed]
    return unlisted, stale


def prune(text: str, stale: list[tuple[Listed, str]]) -> str:
    """The text of the list without the stale dtypes, and without lines that have none left."""
    kept = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            (found,) = read(line)
            left = tuple(d for d in found.dtypes if (found, d) not in stale)
            if not left:
                continue
            line = str(Listed(found.kind, found.unit, left, found.level, found.reason))
        kept.append(line)
    return "\n".join(kept) + "\n"


def corpus(dtype: str, record: bool) -> Path | None:
    """The recorded samples of a dtype; None where there are none."""
    for folder in (ORACLE / "corpus", CACHE):
        if (folder / f"{dtype}.zip").is_file():
            return folder / f"{dtype}.zip"
    if not record:
        return None
    CACHE.mkdir(parents=True, exist_ok=True)
    made = CACHE / f"{dtype}.zip"
    command = [sys.executable, str(ORACLE / "record.py"), "--dtype", dtype, "--out", str(made)]
    subprocess.run(command, check=True, cwd=CACHE)
    return made


def run_oracle(path: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The units of one corpus, each with what passed. SystemExit 2 when the oracle did not run."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, str(ORACLE / "oracle.py"), "run", "gradhook"]
        command += ["--path", str(ROOT), "--corpus", str(path), "--json", str(result)]
        command += ["--kind", options.kinds, "--tier", options.tier, "--jobs", "2"]
        command += ["--limit", str(options.limit), "-v" if options.verbose else "-q"]
        if options.device:
            command += ["--device", options.device, "--setup", str(DEVICE), "--unit-timeout", "300"]
        if subprocess.run(command, check=False, cwd=ROOT).returncode or not result.is_file():
            raise SystemExit(2)
        return list(json.loads(result.read_text("utf-8"))["units"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtypes", nargs="+", default=["float64"])
    parser.add_argument("--record", action="store_true", help="record the corpora that are missing")
    parser.add_argument("--kinds", default="op,module,optim", help="some of op, module, optim")
    parser.add_argument("--tier", default="3", help="1, 2 or 3 (all)")
    parser.add_argument("--limit", type=int, default=0, help="samples a unit, 0 for all")
    parser.add_argument("--device", default="", help="cuda: on a GPU, else on the CPU test device")
    parser.add_argument("--prune", action="store_true", help="take what passes out of the list")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line a unit, with failures")
    options = parser.parse_args()
    if not (ORACLE / "oracle.py").is_file():
        print(f"oracle: skipped, there is no {ORACLE} on this machine")
        return 0
    unlisted, stale = [], []
    for dtype in options.dtypes:
        path = corpus(dtype, options.record)
        if path is None:
            print(f"oracle: no samples of {dtype} in {ORACLE / 'corpus'} or {CACHE}: left out")
            continue
        listed = read(EXCEPTIONS.read_text("utf-8"))
        told = judge(run_oracle(path, options), listed, dtype, options.device)
        unlisted += told[0]
        stale += told[1]
    for line in unlisted:
        print(f"NOT LISTED {line}")
    if options.prune:
        EXCEPTIONS.write_text(prune(EXCEPTIONS.read_text("utf-8"), stale), "utf-8")
        print(f"oracle: {len(stale)} entries taken out of {EXCEPTIONS}")
        stale = []
    for line, dtype in stale:
        print(f"LISTED, BUT NOT SO {dtype}: {line} (take it out with --prune)")
    return int(bool(unlisted or stale))


if __name__ == "__main__":
    sys.exit(main())
