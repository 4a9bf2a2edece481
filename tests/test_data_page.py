"""The program of docs/data.md runs as a script, and its page names what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradhook.utils import data

PAGE = Path(__file__).resolve().parent.parent / "docs" / "data.md"
if not PAGE.is_file():
    pytest.skip("docs/ is not in this copy of the sources", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")


def test_the_program_learns_what_it_shows(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    script = tmp_path / "circles.py"
    script.write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"GRADHOOK_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not done.stderr
    found = re.fullmatch(r"15 batches an epoch, (\d\.\d\d) right\n", done.stdout)
    assert found is not None and float(found[1]) >= 0.9


def test_every_public_name_is_on_the_page() -> None:
    names = [name for name, value in vars(data).items() if callable(value) and name[0] != "_"]
    missing = [name for name in names if f"`{name}`" not in TEXT and name != "WorkerInfo"]
    assert len(names) > 15 and not missing
