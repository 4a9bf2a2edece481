"""What a training step moves and waits for: nothing, until a hook asks; then what it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.gpu_check import Check
from bench.rows import ROWS, library
from gradhook import backend, profiler

SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""
SPIN_CYCLES = 600_000_000  # 0.3 s and more on every GPU: longer than the host takes for a step
LONG = ("graph of", "chain of", "the same", "tanh")  # many nodes or elements, nothing new


def checks(test_device: bool) -> Iterator[Check]:
    gradhook = library("gradhook")
    for row in ROWS:
        if row.name.startswith(LONG) or (test_device and row.only_products):
            continue  # the test device takes a minute and more for steps of that size
        work = row.build(gradhook, "cuda")
        reference = row.build(gradhook, "cpu") if row.only_products else row.raw()
        yield _values(row.name, work, reference)
        yield _no_transfer(row.name, work.step)
        yield _no_wait(row.name, work.step, test_device)
    yield _one_copy(gradhook)
    yield _empty_hook(gradhook, test_device)


def _values(name: str, work: Any, reference: Any) -> Check:
    """Three steps on the device against three steps of the same arithmetic in NumPy."""
    for _ in range(3):
        work.step()
        reference.step()
    errors = [
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
        for a, b in zip(work.values(), reference.values(), strict=True)
    ]
    detail = f"largest relative error {max(errors):.1e}, allowed 1e-4"
    return Check("steps", f"{name}: values", max(errors) <= 1e-4, detail)


def _no_transfer(name: str, step: Callable[[], object]) -> Check:
    with profiler.transfers() as moved, profiler.launches() as launched:
        step()
    detail = f"{moved.count} host copies, {launched.count} launches of gradhook's own kernels"
    return Check("steps", f"{name}: no transfer", moved.count == 0, detail)


def _no_wait(name: str, step: Callable[[], object], test_device: bool) -> Check:
    """The host comes back from a step while the device still spins before it: no wait inside."""
    if test_device:
        waits = sum(n for kind, n in _counted(step).items() if kind in WAITS)
        return Check("steps", f"{name}: no wait", waits == 0, f"{waits} waits, counted")
    cupy = backend.cupy()
    spin = cupy.RawKernel(SPIN, "spin")
    step()
    cupy.cuda.runtime.deviceSynchronize()
    spin((1,), (1,), (np.int64(SPIN_CYCLES),))
    before = cupy.cuda.Event(disable_timing=True)
    before.record()
    step()
    ran_ahead = not before.done
    cupy.cuda.runtime.deviceSynchronize()
    return Check(
        "steps", f"{name}: no wait", ran_ahead, "the host ran ahead" if ran_ahead else "it waited"
    )


WAITS = ("h2d", "d2h", "syncs")  # by the names of tests/cpudevice


def _counted(step: Callable[[], object]) -> dict[str, int]:
    """What the CPU test device counted during a step."""
    from bench.gpu_check import test_device_counters

    before = test_device_counters()
    step()
    after = test_device_counters()
    return {name: count - before.get(name, 0) for name, count in after.items()}


def _one_copy(gradhook: Any) -> Check:
    """Three hooks read one gradient of 4 KB: one copy of 4 KB."""
    layer = gradhook.nn.Linear(32, 32).to("cuda")
    seen: list[Any] = []
    for _ in range(3):
        layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].storage().host()))
    x = gradhook.ones(32, 32, device="cuda", requires_grad=True)
    with profiler.transfers() as moved:
        layer(x).sum().backward()
    ok = len(seen) == 3 and moved.count == 1 and moved.nbytes == 4096
    detail = f"{moved.count} copies, {moved.nbytes} bytes; expected 1 and 4096"
    return Check("steps", "three hooks ask for one gradient", ok, detail)


def _empty_hook(gradhook: Any, test_device: bool) -> Check:
    """A hook that does nothing launches nothing and moves nothing.

    x.grad stands already: a leaf's first gradient, when a hook was handed it, is copied (the hook
    may keep it), which is a launch of its own and not counted here.
    """
    counts = []
    for hooked in (False, True):
        model = gradhook.nn.Sequential(*[gradhook.nn.Linear(8, 8) for _ in range(3)]).to("cuda")
        for layer in model if hooked else ():
            layer.register_full_backward_hook(lambda module, gi, go: None)
        x = gradhook.ones(4, 8, device="cuda", requires_grad=True)

        def step(model: Any = model, x: Any = x) -> None:
            model(x).sum().backward()

        step()
        if test_device:
            counts.append(_counted(step).get("launches", 0))
        else:
            with profiler.launches() as launched, profiler.transfers() as moved:
                step()
            counts.append(launched.count + moved.count)
    detail = f"launches and copies without hooks {counts[0]}, with hooks {counts[1]}"
    return Check("steps", "an empty hook launches nothing", counts[0] == counts[1], detail)
