"""What the host spends on a training step of one-element tensors: python -m bench.host.

gradhook runs on the CPU test device (tests/cpudevice) in its null mode: CuPy and gradhook do all
their work, kernels are counted and not run. PyTorch runs the same graph on the CPU, kernels of one
element and all: what it spends is dispatch, too. CPU time, one thread, in one process by turns,
medians. Needs PyTorch and CuPy in one environment. No GPU is measured.
"""

from __future__ import annotations

import importlib
import os
import statistics
import sys
from time import process_time
from typing import Any

from bench.gpu_check import ROOT, load_test_device
from bench.launch_steps import ONE_ELEMENT

ALLOWED = 0.90  # gradhook's time over PyTorch's
REPEATS, STEPS = 41, 20


def main() -> int:
    """Returns 0 when no step takes longer than it may, 1 when one does, 2 when not comparable."""
    sys.path.insert(0, str(ROOT / "tests"))
    device = importlib.import_module("cpudevice")
    if reason := device.why_not():
        sys.exit(f"host: needs the CPU test device: {reason}")
    load_test_device()
    from bench.rows import library

    gradhook, torch = library("gradhook"), library("torch")
    if torch is None:
        print("PyTorch is not installed: install it beside CuPy")
        return 2
    torch.set_num_threads(1)
    ratios = [compare(name, build, gradhook, torch, device) for name, build in ONE_ELEMENT.items()]
    return int(max(ratios) > ALLOWED)


def compare(name: str, build: Any, gradhook: Any, torch: Any, device: Any) -> float:
    """The median ratio of a step's host time; prints a line."""
    ours, theirs = build(gradhook, "cuda"), build(torch, "cpu")
    for step in (ours, theirs):
        for _ in range(2 * STEPS):
            step()
    pairs = []
    with device.null():
        for _ in range(REPEATS):
            pairs.append((microseconds(ours), microseconds(theirs)))
    ratio = statistics.median(a / b for a, b in pairs)
    a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{name:44} gradhook {a:6.0f} us  PyTorch {b:6.0f} us  ratio {ratio:.2f} <= {ALLOWED}")
    return ratio


def microseconds(step: Any) -> float:
    begin = process_time()
    for _ in range(STEPS):
        step()
    return (process_time() - begin) / STEPS * 1e6


if __name__ == "__main__":
    os.environ.setdefault("GRADHOOK_DEVICE", "cpu")  # every step says which device it means
    sys.exit(importlib.import_module("bench.host").main())
