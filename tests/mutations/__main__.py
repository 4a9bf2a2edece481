"""Leave out each event record and wait of the stream code in turn, and run the tests that are to
fail: cd tests && python -m mutations [--reverse] [--only TEXT] [--jobs N]. Exit status 1 when a
mutation survives, 2 when a listed text is gone or the tests fail without a mutation.

On the CPU test device in deferred mode, with two devices. --reverse: threads of a block in reverse.
--only: mutations whose file, text or reason contains TEXT.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutations.table import ROOT, Mutation, everything

TESTS = [  # in this order: once a second device is in use, streams wait for more than they need
    "tests/device/test_streams.py",
    "tests/device/test_waits.py",
    "tests/device/test_offloading.py",
    "tests/device/test_batches_to_device.py",
    "tests/device/test_two_devices.py",
    "tests/device/test_transfers.py",
    "tests/test_host_hooks.py",
]
LINKS = ("kernels", "tests", "pyproject.toml")
SECONDS = 60  # a test that waits for ever has failed, too; the tests take 3
_mine = threading.local()


def copy_of_package(folder: Path) -> Path:
    """A copy of gradhook in a folder, with links to what its tests need."""
    shutil.copytree(
        ROOT / "gradhook", folder / "gradhook", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in LINKS:
        (folder / name).symlink_to(ROOT / name)
    return folder


def tests_fail(folder: Path, reverse: bool) -> str:
    """The first line of pytest that says a failure; empty when all pass."""
    environment = os.environ | {
        "CPUDEVICE_DEFERRED": "1",
        "CPUDEVICE_REVERSE": str(int(reverse)),
        "CPUDEVICE_COUNT": "2",
        "CPUDEVICE_FORCE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(folder),
    }
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--device", "cuda",
        "--tb", "no", "--no-header", *TESTS,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = [x for x in done.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else f"pytest ended with {done.returncode}: {done.stderr[-200:]}"


def failure_with(mutation: Mutation, parent: Path, reverse: bool) -> str:
    """What fails with the mutation; each thread has a copy of the package."""
    if not hasattr(_mine, "folder"):
        _mine.folder = copy_of_package(Path(tempfile.mkdtemp(dir=parent)))
    file = _mine.folder / mutation.file
    file.write_text(mutation.text(), "utf-8")
    try:
        return tests_fail(_mine.folder, reverse)
    finally:
        shutil.copyfile(ROOT / mutation.file, file)


def main() -> int:
    """Run it all."""
    parser = argparse.ArgumentParser(prog="python -m mutations", description=__doc__)
    parser.add_argument("--reverse", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        chosen = [m for m in everything() if options.only in f"{m.file} {m.old} {m.why}"]
    except LookupError as error:
        print(error)
        return 2
    survivors = 0
    with tempfile.TemporaryDirectory() as name:
        parent = Path(name)
        unchanged = parent / "unchanged"
        unchanged.mkdir()
        if failure := tests_fail(copy_of_package(unchanged), options.reverse):
            print(f"the tests fail without a mutation: {failure}")
            return 2
        with ThreadPoolExecutor(options.jobs) as pool:
            run = pool.map(lambda m: failure_with(m, parent, options.reverse), chosen)
            for mutation, failure in zip(chosen, run, strict=True):
                survivors += not failure
                where = f"{mutation.file}:{mutation.line}"
                change = f"{' '.join(mutation.old.split())} -> {mutation.new.strip() or 'nothing'}"
                print(
                    f"{'killed  ' if failure else 'SURVIVED'} {where}  {change}  ({mutation.why})"
                )
                if failure:
                    print(f"         by {failure[:160]}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
