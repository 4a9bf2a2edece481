"""The hook tests of tests/, run on the device by pytest in a process of its own."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator

from bench.gpu_check import ROOT, Check

FILES = ("test_*hook*.py", "test_cuda*.py", "test_device_hooks*.py")
SECONDS = 150


def checks(test_device: bool) -> Iterator[Check]:
    tests = ROOT / "tests"
    found = sorted({str(path) for pattern in FILES for path in tests.glob(pattern)})
    if not found or importlib.util.find_spec("pytest") is None:
        yield Check("hooks", "hook tests", None, "left out: no tests/ folder here, or no pytest")
        return
    command = [sys.executable, "-m", "pytest", "-q", "--maxfail=10", "--tb=line"]
    try:
        done = subprocess.run(
            [*command, "--device", "cuda", "-p", "no:cacheprovider", *found],
            cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        yield Check("hooks", "hook tests", False, f"not done after {SECONDS} s")
        return
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["no output"]
    passed = re.search(r"(\d+) passed", lines[-1])
    ok = done.returncode == 0 and passed is not None
    yield Check("hooks", f"hook tests, {len(found)} files", ok, lines[-1].strip("= "))
    if not ok:
        for line in lines[-6:-1]:
            yield Check("hooks", "", None, line[:200])
