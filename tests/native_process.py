"""Another Python process with native kernels of its own: its cache, its compiler, its settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# what a process uses when nothing else is said: `report(...)` prints what the test reads
HEAD = """
import json, sys, warnings
import numpy as np
said = []
def show(message, category, *rest):
    if category is RuntimeWarning: said.append(str(message))
warnings.showwarning = show
warnings.simplefilter("always")
import gradhook
from gradhook.native import library
def report(**found):
    print(json.dumps({"why_not": library.why_not(), "said": said, **found}))
def check():
    x = np.linspace(-3, 3, 77, dtype="f4").reshape(7, 11)
    powers = np.exp(x)
    y = gradhook.softmax(gradhook.tensor(x), -1).numpy()
    assert abs(y - powers / powers.sum(-1, keepdims=True)).max() < 1e-6
"""


def environment(**changes: str | None) -> dict[str, str]:
    """This process's, with gradhook's own settings taken out and these changed; None removes."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GRADHOOK_") and k != "CXX"}
    kept |= {"PYTHONPATH": str(ROOT), "GRADHOOK_DEVICE": "cpu", "OPENBLAS_NUM_THREADS": "1"}
    return {k: v for k, v in (kept | changes).items() if v is not None}


def start(code: str, **changes: str | None) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEAD + code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment(**changes), text=True, **pipes)


def ended(process: subprocess.Popen[str], seconds: float = 120) -> dict[str, Any]:
    """What it reported; it must have ended well."""
    try:
        out, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, f"status {process.returncode}: {out}{errors}"
    return dict(json.loads(out.splitlines()[-1]))


def run(code: str, **changes: str | None) -> dict[str, Any]:
    return ended(start(code, **changes))
