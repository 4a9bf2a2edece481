"""House rules that a machine can check."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gradhook", "kernels", "tests", "bench", "docs", "examples")
FILES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".cu", ".cuh", ".h", ".cpp")
]
KERNEL_TEXT = [path for path in FILES if path.suffix != ".py"]
MODULES = [path for path in FILES if path.suffix == ".py" and path.read_text("utf-8").strip()]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_file_is_over_400_lines(path):
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= 400, f"{name(path)} has {lines} lines; split it by noun"


@pytest.mark.parametrize("path", KERNEL_TEXT, ids=name)
def test_kernel_lines_are_at_most_100_columns_wide(path):
    wide = [i for i, line in enumerate(path.read_text("utf-8").splitlines(), 1) if len(line) > 100]
    assert not wide, f"{name(path)}: lines {wide} are over 100 columns"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), f"{name(path)} has no docstring"
