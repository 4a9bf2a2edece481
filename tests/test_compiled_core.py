"""The compiled core: what is compiled says so, and what it knows of the classes is true.

`make compiled` runs all tests on a wheel with it; here is what is about it alone.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradhook import info
from gradhook.autograd import compiled
from gradhook.autograd.op_node import become, define

ROOT = Path(__file__).resolve().parent.parent
LAYOUT = ROOT / "gradhook" / "autograd" / "layout.pxd"
EXPECTED = os.environ.get("GRADHOOK_EXPECTED_CORE")


def test_info_says_what_the_core_is():
    (line,) = [found for found in info.report().splitlines() if found.startswith("core:")]
    parts = compiled.parts()
    if not parts:
        assert line.split() == ["core:", "pure", "Python"]
        assert compiled.blank is object.__new__ and not compiled.factories()
    else:
        assert "compiled (Cython)" in line and "autograd.engine" in line


in_make_compiled = pytest.mark.skipif(EXPECTED != "compiled", reason="only in `make compiled`")


def listed(module: str, name: str) -> tuple[str, ...]:
    """What a module of compiled/ lists."""
    sys.path.insert(0, str(ROOT))
    try:
        return getattr(importlib.import_module(f"compiled.{module}"), name)
    finally:
        sys.path.remove(str(ROOT))


@in_make_compiled
def test_every_module_of_the_list_is_compiled_in_the_wheel():
    modules = listed("build", "MODULES")
    assert compiled.parts() == sorted(m.replace("/", ".") for m in modules)


@in_make_compiled
def test_the_recorders_of_the_list_are_compiled_until_something_watches_nodes():
    program = f"""
import gradhook
from gradhook.autograd import record
names = {listed("recorders", "OPS")!r}
assert [n for n in names if not hasattr(getattr(record.ops, n), "redirect")] == []
x = gradhook.ones(3, requires_grad=True)
with gradhook.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
    y = (x * x).sum()
y.backward()
assert x.grad.tolist() == [4.0, 4.0, 4.0], x.grad  # packed: the compiled recorder gave way
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def structs() -> dict[str, list[str]]:
    """C struct -> the names of its fields, in order, as layout.pxd declares them."""
    text = LAYOUT.read_text("utf-8")
    found = re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.DOTALL)
    return {name: re.findall(r"(?<=\*)\w+", body) for body, name in found}


def classes() -> list[tuple[str, str, str, list[str]]]:
    """(module, class, C struct, fields) of each class that layout.pxd declares."""
    text = LAYOUT.read_text("utf-8")
    pattern = (
        r"ctypedef class ([\w.]+)\.(\w+) \[object (\w+),[^\]]*\]:\n((?:        cdef object .*\n)+)"
    )
    return [
        (m[1], m[2], m[3], re.findall(r"\w+", m[4].replace("cdef object", "")))
        for m in re.finditer(pattern, text)
    ]


@pytest.mark.skipif(not LAYOUT.exists(), reason="an installed wheel has no layout.pxd")
def test_the_layout_has_the_slots_of_each_class_in_the_order_python_lays_them_out():
    assert len(classes()) >= 5
    for module, name, struct, fields in classes():
        kind = getattr(importlib.import_module(module), name)
        slots = sorted(s for s in kind.__slots__ if not s.startswith("__"))
        assert fields == slots, f"layout.pxd declares other slots of {name} than it has"
        assert structs()[struct] == slots, f"{struct} in layout.pxd is not laid out as {name}"


def test_a_compiled_function_hands_its_calls_to_the_text_it_becomes():
    class Compiled:  # as Cython's functions: no code to replace
        def __init__(self):
            self.other = None

        def redirect(self, other):
            self.other = other

    found = Compiled()
    later = define("def later(x):\n    return x + 1\n", "later", "test of become", {})
    become(found, later)
    assert found.other is later
    first = define("def later(x):\n    return x\n", "later", "test of become, first", {})
    become(first, later)
    assert first(1) == 2
