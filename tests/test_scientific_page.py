"""The code of docs/scientific.md runs, on the device under test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scientific.md"
if not PAGE.is_file():
    pytest.skip("docs/ is not in this copy of the sources", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")
START, *BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_code_block_runs_after_the_first_one(number: int) -> None:
    text = START + BLOCKS[number]
    exec(compile(text, f"scientific.md, Python block {number + 2}", "exec"), {"__name__": "page"})


def test_every_public_name_is_on_the_page() -> None:
    from gradhook import ndimage, signal

    for module in (ndimage, signal):
        for name in module.__all__:
            assert f"`{name}`" in TEXT or f".{name}(" in TEXT, name
