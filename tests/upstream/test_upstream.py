"""The runner of PyTorch's hook tests: what it cuts, how it compares, and when it skips."""

from __future__ import annotations

import subprocess
import sys

import pytest

from upstream import sources
from upstream.comparing import LIST, complaints, exceptions, outcomes
from upstream.cutting import EVERY, cut

FILE = """
import os
import numpy.linalg as la
from torch.testing import make
if make: import json as js
LIMIT = 3
def helper(x): return other(x) + LIMIT
def other(x): return la.norm(x)
def unused(): return os.name
class Net: pass
class TestThing(Base):
    size = 2
    def help(self): return Net()
    def test_hook_order(self): return helper(js)
    def test_addition(self): return unused()
class TestRest(Base):
    def test_sum(self): pass
class TestCheckpoint(Base):
    @param("x", [1])
    def test_any(self): pass
instantiate_tests(TestThing)
instantiate_tests(TestRest)
"""


def test_wanted_tests_stay_with_all_that_they_name():
    text = cut(FILE)
    for kept in ("size", "help", "test_hook_order", "test_any", "LIMIT", "helper", "other", "Net"):
        assert kept in text
    for gone in ("test_addition", "TestRest", "unused", "make", "import os"):
        assert gone not in text
    assert "la = imported('numpy.linalg')" in text and "js = imported('json')" in text
    assert "instantiate_tests(TestThing)" in text
    assert "TestRest" in cut(FILE, EVERY) and "make = " not in cut(FILE, EVERY)


REPORT = """<testsuites><testsuite>
<testcase classname="nn.test_a.TestA" name="test_good"/>
<testcase classname="test_b_cut.TestB" name="test_bad"><failure message="x"/></testcase>
<testcase classname="test_b_cut.TestB" name="test_left"><skipped message="x"/></testcase>
</testsuite></testsuites>"""


def test_a_failure_that_is_not_listed_and_a_listed_pass_are_both_wrong():
    found = outcomes(REPORT)
    assert found == {
        "test_a.TestA.test_good": "passed",
        "test_b.TestB.test_bad": "failed",
        "test_b.TestB.test_left": "skipped",
    }
    assert complaints(found, {"test_b.TestB.test_bad": "why"}) == []
    assert complaints(found, {"test_a.TestA.test_good": "why", "test_c.T.test_gone": "why"}) == [
        "test_a.TestA.test_good is listed, and passed",
        "test_b.TestB.test_bad fails and is not listed",
        "test_c.T.test_gone is listed, and not there",
    ]


def test_an_exception_has_a_mode_and_a_reason():
    text = "# note\n\na.B.c  both  since it is so\na.B.d  compat  for a reason\n"
    assert exceptions(text) == {
        "default": {"a.B.c": "since it is so"},
        "compat": {"a.B.c": "since it is so", "a.B.d": "for a reason"},
    }
    for bad in ("a.B.c  both\n", "a.B.c  always  why\n", "a.B.c both x\na.B.c compat y\n"):
        with pytest.raises(ValueError, match=r"^line \d: "):
            exceptions(bad)


def test_the_list_reads_well():
    listed = exceptions(LIST.read_text("utf-8"))
    module_hooks = [x for x in listed["compat"] if x.startswith("test_module_hooks.")]
    assert not module_hooks


def test_pytorchs_text_never_comes_into_the_repository():
    with pytest.raises(ValueError, match="inside the repository"):
        sources.fetched(sources.ROOT / "tests" / "anything")


def test_without_the_shim_or_the_network_it_says_so_in_one_line(tmp_path):
    shim = tmp_path / "shim"
    text = (
        "import sys; from pathlib import Path; from upstream import sources, __main__ as m;"
        f"sources.SHIM = Path({str(shim)!r});"
        f"sys.argv = ['upstream', '--sources', {str(tmp_path / 'cache' / 'suite')!r}];"
        "raise SystemExit(m.main())"
    )

    def said():
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=sources.ROOT / "tests",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1
        return done.stdout

    assert f"skipped, there is no {shim}" in said()
    shim.mkdir()
    (shim / "conftest.py").touch()
    (shim / "fetch.sh").write_text("echo no mirror found >&2; exit 1")
    assert "skipped, PyTorch's sources could not be fetched: no mirror found" in said()
    assert not list((tmp_path / "cache").iterdir())
