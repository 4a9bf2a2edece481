"""Where PyTorch's test files come from: a cache folder, filled by the shim's fetch.sh."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIM = ROOT.parent / "shared" / "tools" / "pytorch_suite"
FILES = (
    "nn/test_module_hooks.py",
    "nn/test_load_state_dict.py",
    "test_autograd.py",
    "test_nn.py",
    "test_optim.py",
)
SECONDS = 180  # 5 where the mirror is near


class Unreachable(Exception):
    """Why the tests cannot be had here."""


def cache() -> Path:
    """The folder in the user's cache that keeps the files for the next run."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gradhook" / "pytorch_suite"


def complete(folder: Path) -> bool:
    """Whether a folder holds all the files."""
    return all((folder / name).is_file() for name in FILES)


def fetched(folder: Path) -> Path:
    """`folder` with PyTorch's test files in it, fetched if they are not there.

    Raises Unreachable when the shim or the network is missing, ValueError for a folder inside the
    repository, where PyTorch's text might get committed.
    """
    folder = folder.resolve()
    if folder.is_relative_to(ROOT):
        raise ValueError(f"{folder} is inside the repository; PyTorch's tests stay outside of it")
    if not (SHIM / "conftest.py").is_file():
        raise Unreachable(f"there is no {SHIM} on this machine")
    if not complete(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            fetch(Path(name))
            shutil.copytree(name, folder, dirs_exist_ok=True)
    return folder


def fetch(folder: Path) -> None:
    """Run fetch.sh into a folder; Unreachable says its last line when it fails."""
    try:
        done = subprocess.run(
            ["bash", str(SHIM / "fetch.sh"), str(folder)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"fetch.sh took over {SECONDS} s") from None
    if done.returncode or not complete(folder):
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise Unreachable(f"PyTorch's sources could not be fetched: {said[-1]}")
