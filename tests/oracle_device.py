"""Run by each worker of the oracle after it imported gradhook (`--setup`): the CPU test device,
unless there is a GPU. `pkg` is gradhook."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(pkg.__file__).resolve().parent.parent / "tests"))  # noqa: F821

import cpudevice
from cpudevice.plugin import gpu_visible

if not gpu_visible():
    cpudevice.start()
