"""Measures that need a process of their own: memory of a step and a node, time to import."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

_MEMORY = """
import gc, numpy as np, {library} as lib
gc.disable()
def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    import resource
    return pages * resource.getpagesize()
a = lib.full((1,), 1.0)
def build(n):
    y = lib.tensor(np.ones(1, np.float32), requires_grad=True)
    for _ in range(n):
        y = y * a
    return y
build(1000).backward()
before = resident()
y = build({nodes})
print((resident() - before) / {nodes})
"""
_IMPORT = """
import time, numpy
start = time.process_time()
import {library}
print(time.process_time() - start)
"""


_PEAK = """
import resource, numpy as np, {library} as lib
lib.nn, lib.optim
lib.set_num_threads(1)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
x = lib.tensor(np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32))
before = peak()
nn = lib.nn
model = nn.Sequential(*[m for _ in range(20) for m in (nn.Linear(512, 512), nn.ReLU())])
optimizer = lib.optim.Adam(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    (model(x) ** 2).mean().backward()
    optimizer.step()
print((peak() - before) / 1024)
"""


def _run(text: str, **environment: str) -> float:
    command = [sys.executable, "-c", text]
    env = {**os.environ, **environment}
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(found.stdout)


def memory_per_node(library: str, nodes: int = 100_000) -> float:
    """Resident bytes a node of a chain of one-element multiplications, values included. Linux."""
    return statistics.median(_run(_MEMORY.format(library=library, nodes=nodes)) for _ in range(3))


def peak_memory(library: str) -> float:
    """Peak resident MB over what was there after import, of three steps of 20 x (Linear(512, 512),
    ReLU) with Adam, batch 1024: the median of 5 fresh processes. Linux.
    """
    return statistics.median(_run(_PEAK.format(library=library)) for _ in range(5))


def import_seconds(library: str, repeats: int = 7) -> float:
    """Median CPU time that `import library` takes after NumPy was imported, .pyc files made."""
    text = _IMPORT.format(library=library)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        _run(text, **environment)
        return statistics.median(_run(text, **environment) for _ in range(repeats))
