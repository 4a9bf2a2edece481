"""What the oracle may find fault with: a unit passes or stands in the list, and only those."""

from __future__ import annotations

import pytest
from oracle_run import EXCEPTIONS, judge, prune, read

LIST = """# a comment
op conj | complex64 float32@cuda | full | deliberate: computed
op mode | int64 float32 | core | any index
"""


def unit(name, core, full):
    fails = [] if full else [["grad", "3", "wrong", "0 expected 1"]]
    return {"kind": "op", "uid": name, "core": core, "full": full, "fails": fails}


def test_a_unit_that_neither_passes_nor_is_listed_is_told_with_its_failure():
    unlisted, stale = judge([unit("sin", False, False)], read(LIST), "float32")
    assert unlisted == ["op sin | float32 | core | grad [3] 0 expected 1"] and stale == []


def test_a_listed_unit_may_fail_as_listed_or_less():
    listed = read(LIST)
    assert judge([unit("conj", True, False)], listed, "complex64") == ([], [])
    assert judge([unit("mode", False, False)], listed, "int64") == ([], [])
    unlisted, stale = judge([unit("mode", True, False)], listed, "int64")
    assert unlisted == [] and [x.unit for x, _ in stale] == ["mode"]


def test_a_unit_that_fails_more_than_is_listed_or_in_another_dtype_is_told():
    assert judge([unit("conj", False, False)], read(LIST), "complex64")[0]
    assert judge([unit("conj", True, False)], read(LIST), "float64")[0]


def test_a_listed_unit_that_passes_is_told_and_pruned():
    listed = read(LIST)
    unlisted, stale = judge([unit("conj", True, True), unit("mode", True, True)], listed, "int64")
    assert unlisted == [] and [(x.unit, d) for x, d in stale] == [("mode", "int64")]
    assert prune(LIST, stale) == LIST.replace("int64 float32", "float32")
    gone = prune(LIST, [(listed[0], "complex64"), (listed[0], "float32@cuda")])
    assert "conj" not in gone and "# a comment" in gone


def test_on_a_device_the_lines_of_the_dtype_count_and_need_not_hold():
    listed = read(LIST)
    assert judge([unit("mode", False, False)], listed, "float32", "cuda") == ([], [])
    assert judge([unit("mode", True, True)], listed, "float32", "cuda") == ([], [])
    stale = judge([unit("conj", True, True)], listed, "float32", "cuda")[1]
    assert [(x.unit, d) for x, d in stale] == [("conj", "float32@cuda")]


@pytest.mark.parametrize("line", ["op sin", "op sin | f4 | core |", "op sin | f4 | some | why"])
def test_a_line_of_another_form_or_without_a_reason_is_refused(line):
    with pytest.raises(ValueError, match="expected 'kind unit"):
        read(line)


def test_the_list_is_sorted_names_each_unit_once_a_level_and_gives_known_reasons():
    listed = read(EXCEPTIONS.read_text("utf-8"))
    assert len({(x.kind, x.unit, x.level, x.dtypes) for x in listed}) == len(listed)
    order = [(("op", "module", "optim").index(x.kind), x.unit.lower()) for x in listed]
    assert order == sorted(order)
    known = ("torch wrong:", "deviation", "deliberate:", "posed otherwise:", "chaos:", "not yet:")
    assert [str(x) for x in listed if not x.reason.startswith(known)] == []
