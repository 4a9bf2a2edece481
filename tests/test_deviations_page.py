"""docs/deviations.md: every row has its test, and says whether compat("torch") takes it back."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import test_deviations
import test_deviations_functions

import gradhook

PAGE = Path(__file__).resolve().parent.parent / "docs" / "deviations.md"
TEXT = PAGE.read_text("utf-8") if PAGE.is_file() else ""
ROWS = {
    int(number): re.findall(r"([\w/]+\.py): (test_\w+)", row)
    for number, row in re.findall(
        r"^(\d+)\. (.*?)(?=^\d+\. |^## |\Z)", TEXT, re.MULTILINE | re.DOTALL
    )
}
TAKEN_BACK = {
    int(n) for n in re.findall(r"\d+", "".join(re.findall(r"takes back rows(.*?)\.", TEXT)))
}
FILES = (test_deviations, test_deviations_functions)
HERE = {
    int(name[5:7]): f
    for file in FILES
    for name, f in vars(file).items()
    if re.match(r"test_\d\d_", name)
}

needs_the_page = pytest.mark.skipif(not TEXT, reason="docs/ is not in this copy of the sources")


@needs_the_page
def test_every_row_has_its_test():
    assert sorted(ROWS) == list(range(1, len(ROWS) + 1))
    assert len(re.findall(r"^\d+\. ", TEXT, re.MULTILINE)) == len(ROWS)
    assert set(HERE) <= set(ROWS)
    for number, places in ROWS.items():
        assert places or number in HERE, f"row {number} has no test"
        for file, name in places:
            defs = (Path(__file__).parent / file).read_text("utf-8")
            assert re.search(rf"^def {name}\(", defs, re.MULTILINE), f"row {number}: {file}: {name}"


@needs_the_page
@pytest.mark.cpu_only(reason="it runs the tests above, also those of the CPU")
def test_compat_takes_back_the_rows_that_the_page_says_and_no_others():
    taken = set()
    for number, test in HERE.items():
        if not inspect.signature(test).parameters:
            try:
                with gradhook.compat("torch"):
                    test()
            except (Exception, pytest.fail.Exception):
                taken.add(number)
    assert taken == TAKEN_BACK & set(HERE)
    elsewhere = TAKEN_BACK - set(HERE)  # those test both, with compat("torch") and without
    assert all({file for file, _ in ROWS[n]} == {"test_compat.py"} for n in elsewhere)
