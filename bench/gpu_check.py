"""Checks gradhook on a CUDA device: python -m bench.gpu_check.

Every kernel against its formula, the hook tests, transfers and synchronisations of a training step,
bandwidth of kernels against a copy measured in the same run, and step times against CuPy without
autograd and torch. Prints a table and writes JSON. With --test-device it runs whole on the CPU test
device (tests/cpudevice), without times: "passes there" does not mean "passes on a GPU".
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GROUPS = ("kernels", "steps", "hooks", "times")  # bench/gpu_<group>.py


class Check(NamedTuple):
    """One line of the table. ok: None where it is no verdict. figures: for the JSON only."""

    group: str
    name: str
    ok: bool | None
    detail: str
    figures: dict[str, Any] | None = None


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu_check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("gpu-check.json"), help="the JSON file")
    parser.add_argument("--test-device", action="store_true", help="on the CPU test device")
    parser.add_argument("--only", default="", help="groups, with commas between; all without it")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Returns 0 when all checks passed, 1 when one failed or there is no device."""
    options = parse(arguments)
    started = time.perf_counter()
    if options.test_device:
        load_test_device()
    test_device = on_test_device()
    backend = importlib.import_module("gradhook.backend")
    if not backend.is_available():
        print(
            f"gpu_check: no CUDA device: {backend.why_not()}; --test-device runs the checks on "
            "the CPU test device",
            file=sys.stderr,
        )
        return 1
    about = _about(backend, test_device)
    print("\n".join(f"{name + ':':<12}{value}" for name, value in about.items()), flush=True)
    checks = []
    for check in _all(options.only, test_device):
        checks.append(check)
        print(_line(check), flush=True)
    failed = [check for check in checks if check.ok is False]
    seconds = round(time.perf_counter() - started, 1)
    print(f"{len(checks)} lines, {len(failed)} failed, {seconds} s", flush=True)
    record = {**about, "seconds": seconds, "checks": [check._asdict() for check in checks]}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1, default=str) + "\n", "utf-8")
    print(f"wrote {options.out}")
    return 1 if failed else 0


def load_test_device() -> None:
    """Put the CPU test device under CuPy. Has to happen before CuPy is imported."""
    sys.path.insert(0, str(ROOT / "tests"))
    importlib.import_module("cpudevice").start()


def on_test_device() -> bool:
    """Whether the CPU test device is under CuPy: then nothing is timed."""
    module = sys.modules.get("cpudevice")
    return module is not None and bool(module.started())


def test_device_counters() -> dict[str, int]:
    """Everything that the CPU test device counted so far, by name."""
    found: dict[str, int] = importlib.import_module("cpudevice").counters()
    return found


def _all(only: str, test_device: bool) -> Iterator[Check]:
    """Every check, each as soon as it is done; an exception is a failed check, not the end."""
    for group in only.split(",") if only else GROUPS:
        try:
            yield from importlib.import_module(f"bench.gpu_{group}").checks(test_device)
        except Exception as error:
            yield Check(group, "(the whole group)", False, f"{type(error).__name__}: {error}")


def _about(backend: Any, test_device: bool) -> dict[str, str]:
    torch = importlib.import_module("bench.rows").library("torch")
    runtime = backend.cupy().cuda.runtime
    cuda = f"runtime {runtime.runtimeGetVersion()}, driver {runtime.driverGetVersion()}"
    return {
        "device": "CPU test device, no GPU" if test_device else backend.device_name(0),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "Python": sys.version.split()[0],
        "CuPy": str(backend.cupy_version()),
        "CUDA": "none" if test_device else cuda,
        "torch": "not installed" if torch is None else str(torch.__version__),
    }


def _line(check: Check) -> str:
    verdict = {True: "ok", False: "FAILED", None: ""}[check.ok]
    return f"{check.group:<10}{check.name:<60}{verdict:<8}{check.detail}"


if __name__ == "__main__":
    os.environ.setdefault("GRADHOOK_DEVICE", "cpu")  # every check says which device it means
    # as an ordinary module: what the groups import is this one, not __main__
    sys.exit(importlib.import_module("bench.gpu_check").main(sys.argv[1:]))
