"""The code of docs/custom_ops.md runs, on the device under test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from registering import nothing_stays_registered

PAGE = Path(__file__).resolve().parent.parent / "docs" / "custom_ops.md"
if not PAGE.is_file():
    pytest.skip("docs/ is not in this copy of the sources", allow_module_level=True)
START, *BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.DOTALL)


@pytest.fixture(autouse=True)
def _alone():
    with nothing_stays_registered():
        yield


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_code_block_runs_after_the_first_one(number: int) -> None:
    text = START + BLOCKS[number]
    exec(compile(text, f"custom_ops.md, Python block {number + 2}", "exec"), {"__name__": "page"})
