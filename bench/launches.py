"""How many kernels a training step launches: python -m bench.launches.

PyTorch's are counted by its profiler on the CPU: operators that are kernels, so no views, no
allocations, no reads of metadata; an operator that only calls others counts as those, a
`_foreach_*` call as one kernel however many tensors it has, and the step counters of Adam, which
lie in host memory, not at all: the lowest number that is fair. gradhook's are all launches that
CuPy makes, with copies within the device and memsets, counted on the CPU test device
(tests/cpudevice). Each library is counted where it is installed; --torch names the Python of
another environment that has PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

from bench.gpu_check import ROOT, load_test_device
from bench.launch_steps import STEPS

ALLOWED = 0.75  # gradhook's launches over PyTorch's kernels
WARM_UP = 2
Counts = dict[str, dict[str, int]]  # step -> kernel -> how often
_ALLOCATIONS = ("empty", "new_empty", "resize_")
_METADATA = frozenset("item _local_scalar_dense is_nonzero result_type resolve_conj resolve_neg "
                      "set_data stride size sym_size _unsafe_view".split())  # fmt: skip


def main(arguments: list[str]) -> int:
    """Returns 0 when no step launches more than it may, 1 when one does, 2 when not comparable."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.launches",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--torch", metavar="PYTHON", help="count PyTorch's kernels with this one")
    parser.add_argument("--count-torch", action="store_true", help="only PyTorch's, as JSON")
    options = parser.parse_args(arguments)
    if options.count_torch:
        print(json.dumps(torch_counts()))
        return 0
    ours = gradhook_counts()
    theirs = elsewhere(options.torch) if options.torch else torch_counts()
    print("\n".join(report(ours, theirs)))
    if theirs is None:
        return 2
    return int(any(ratio(ours[name], theirs[name]) > ALLOWED for name in ours))


def gradhook_counts() -> Counts:
    """Every launch of a step after warm-up. SystemExit where the CPU test device cannot be used."""
    sys.path.insert(0, str(ROOT / "tests"))
    if reason := importlib.import_module("cpudevice").why_not():
        sys.exit(f"launches: needs the CPU test device: {reason}")
    load_test_device()
    from bench.rows import library

    gradhook = library("gradhook")
    return {name: _launched(build(gradhook, "cuda")) for name, build in STEPS.items()}


def _launched(step: Any) -> dict[str, int]:
    device = importlib.import_module("cpudevice")
    native = importlib.import_module("cpudevice.native")
    for _ in range(WARM_UP):
        step()
    native.call("cpudevice_set_log", 1)
    device.reset()
    step()
    native.call("cpudevice_set_log", 0)
    found = Counter(line.split(" grid=")[0] for line in device.log())
    counted = device.counters()
    assert found.total() == counted["launches"]
    return {**found, **{k: counted[k] for k in ("d2d", "memsets") if counted[k]}}


def torch_counts() -> Counts | None:
    """The kernels of a step after warm-up; None where PyTorch is not installed."""
    from bench.rows import library

    torch = library("torch")
    if torch is None:
        return None
    found = {}
    for name, build in STEPS.items():
        step = build(torch, "cpu")
        for _ in range(WARM_UP):
            step()
        cpu = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=cpu, record_shapes=True) as profile:
            step()
        roots = [e for e in profile.events() if e.cpu_parent is None]
        found[name] = dict(Counter(k for e in roots for k in _kernels(torch, e)))
    return found


def _kernels(torch: Any, event: Any) -> list[str]:
    """The kernels that a profiler event and those below it stand for."""
    below = event.cpu_children
    space, _, name = event.name.partition("::")
    if space == "aten":
        if name.startswith("_foreach_"):
            return [] if _counts_steps(event) else [name]
        if name.startswith(_ALLOCATIONS) or name in _METADATA:
            return []
        packet = getattr(torch.ops.aten, name)
        if _has_kernel(torch, name, packet) or not below:
            return [] if _is_view(packet) else [name]
    return [k for child in below for k in _kernels(torch, child)]


def _counts_steps(event: Any) -> bool:
    """Whether a foreach call is over numbers only: Adam's counts of steps, in host memory."""
    return all(child.input_shapes[:1] == [[]] for child in event.cpu_children)


def _has_kernel(torch: Any, name: str, packet: Any) -> bool:
    """Whether the operator has a kernel of its own, and is not written over other operators."""
    names = [f"aten::{name}" + ("" if o == "default" else f".{o}") for o in packet.overloads()]
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(torch._C._dispatch_has_kernel(n) and has(n, "CPU") for n in names)


def _is_view(packet: Any) -> bool:
    """Whether what the operator returns is its input's memory, not written to."""
    returned = getattr(packet, packet.overloads()[0])._schema.returns
    alias = returned[0].alias_info if returned else None
    return alias is not None and not alias.is_write


def elsewhere(python: str) -> Counts:
    """PyTorch's kernels, counted by another Python."""
    done = subprocess.run(
        [python, "-m", "bench.launches", "--count-torch"],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    found: Counts = json.loads(done.stdout)
    return found


def ratio(ours: dict[str, int], theirs: dict[str, int]) -> float:
    return sum(ours.values()) / sum(theirs.values())


def report(ours: Counts, theirs: Counts | None) -> list[str]:
    """The lines that are printed: each step's kernels by name, and the ratio."""
    lines = []
    for name, found in ours.items():
        lines.append(name)
        lines += _table("gradhook", found)
        if theirs is not None:
            lines += _table("PyTorch", theirs[name])
            lines.append(f"  ratio {ratio(found, theirs[name]):.2f}, allowed {ALLOWED}")
        lines.append("")
    return lines if theirs is not None else [*lines, "PyTorch is not installed: see --torch"]


def _table(title: str, found: dict[str, int]) -> list[str]:
    order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [f"  {title}: {sum(found.values())}", *[f"  {n:6}  {kernel}" for kernel, n in order]]


if __name__ == "__main__":
    os.environ.setdefault("GRADHOOK_DEVICE", "cpu")  # every step says which device it means
    sys.exit(importlib.import_module("bench.launches").main(sys.argv[1:]))
