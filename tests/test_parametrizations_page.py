"""The code of docs/parametrizations.md runs, on the device under test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradhook.nn.utils import parametrizations, parametrize, prune

PAGE = Path(__file__).resolve().parent.parent / "docs" / "parametrizations.md"
if not PAGE.is_file():
    pytest.skip("docs/ is not in this copy of the sources", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")
START, *BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_code_block_runs_after_the_first_one(number: int) -> None:
    text = START + BLOCKS[number]
    place = f"parametrizations.md, Python block {number + 2}"
    exec(compile(text, place, "exec"), {"__name__": "page"})


@pytest.mark.parametrize("space", [parametrizations, parametrize, prune])
def test_every_public_name_is_on_the_page(space) -> None:
    missing = [name for name in space.__all__ if name not in TEXT and name != "ParametrizationList"]
    assert not missing
