"""Run the tests in a folder of their own, by pytest in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from upstream.comparing import outcomes
from upstream.cutting import EVERY, WANTED, cut
from upstream.sources import FILES, ROOT, SHIM

UNTOUCHED = "nn/test_module_hooks.py"  # the shim has all that it imports
WHOLE = "nn/test_load_state_dict.py"  # every test
SECONDS = 900


def prepare(sources: Path, folder: Path) -> None:
    """Put the shim, the whole files and the cut ones into a folder."""
    shutil.copyfile(SHIM / "conftest.py", folder / "conftest.py")
    for name in FILES:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name == UNTOUCHED:
            shutil.copyfile(sources / name, target)
        else:
            text = cut((sources / name).read_text("utf-8"), EVERY if name == WHOLE else WANTED)
            target.with_name(target.stem + "_cut.py").write_text(text, "utf-8")


def run(folder: Path, mode: str, target: str = "gradhook") -> dict[str, str]:
    """Each test's outcome in a mode, default or compat. RuntimeError when pytest breaks down."""
    environment = os.environ | {
        "GH_TARGET": target,
        "GRADHOOK_COMPAT": "torch" if mode == "compat" else "",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    report = folder / f"{mode}.xml"
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder),
        "-c", os.devnull, "--tb", "short", "--junitxml", str(report), str(folder),
    ]  # fmt: skip
    log = folder / f"{mode}.log"
    with log.open("w") as stream:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=stream, stderr=stream, timeout=SECONDS
        )
    if done.returncode not in (0, 1) or not report.is_file():
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{log.read_text()[-3000:]}")
    return outcomes(report.read_text("utf-8"))
