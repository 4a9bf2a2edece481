"""The README's Python runs, prints what it says, and its files and commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
if not README.is_file():
    pytest.skip("README.md is not in this copy of the sources", allow_module_level=True)
TEXT = README.read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
PRINTED = re.findall(r"^```text\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_code_block_runs_by_itself(number, capsys):
    exec(compile(BLOCKS[number], f"README.md, Python block {number + 1}", "exec"), {})
    printed = capsys.readouterr().out
    if printed:
        assert printed in PRINTED


def test_the_first_hook_is_ten_lines_or_less():
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) <= 10 and PRINTED


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md"]
)
def test_what_a_page_points_to_exists(name):
    page = ROOT / name
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (page.parent / target).exists(), f"{name} points to {target}"
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for target in re.findall(r"\bmake ([a-z]+)\b(?= *(?:#|`|$))", text, flags=re.MULTILINE):
        assert target in targets, f"{name} names make {target}"


def test_the_picture_is_small_enough_to_load_at_once():
    assert (ROOT / "docs" / "gradflow.png").stat().st_size < 200_000
