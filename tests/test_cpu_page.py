"""docs/cpu.md names what there is: its variables, functions and bounds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_native_math import DOUBLE_ULP, FLOAT_ULP, FUNCTIONS, NORMAL

import gradhook
from gradhook.native import buffers, cache, compiler, library, threads

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cpu.md"
if not PAGE.is_file():
    pytest.skip("docs/ is not in this copy of the sources", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")


def test_every_variable_and_function_is_on_the_page():
    variables = [buffers.VARIABLE, cache.VARIABLE, library.VARIABLE, *threads.VARIABLES, "CXX"]
    assert [v for v in variables if f"`{v}" not in TEXT] == []
    names = [f"gradhook.cpu.{name}(" for name in gradhook.cpu.__all__]
    names += ["gradhook.set_num_threads(", "gradhook.get_num_threads("]
    assert [n for n in names if n not in TEXT] == []


def test_numbers_on_the_page_are_those_of_the_code():
    assert f"from {buffers.LARGE} elements on" in TEXT
    assert f"over {compiler.SECONDS} seconds" in TEXT
    assert (
        " ".join(compiler.NAMES[:1]) in TEXT and f"{NORMAL:g} absolute".replace("-0", "-") in TEXT
    )


def test_the_bounds_on_the_page_are_those_that_tests_hold():
    rows = re.findall(r"^\| ([a-z0-9, ]+) \| ([\d.]+) \| (\d) \| ([\d.]+) \| (\d) \|$", TEXT, re.M)
    found = {name: row for names, *row in rows for name in names.split(", ")}
    assert set(found) == set(FUNCTIONS)
    for name, (_, single, _, double) in found.items():
        assert (int(single), int(double)) == (FLOAT_ULP[name], DOUBLE_ULP)


def test_a_line_of_info_looks_as_on_the_page():
    if library.is_available():
        assert re.match(r"/\S+ -std=c\+\+17 -O3 -march=native .*; cache /\S+; \d+ threads; ",
                        library.status())  # fmt: skip
