"""The code of docs/hooks.md runs, what it points to exists, and its picture can be drawn."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from gradhook import autograd, nn, optim
from gradhook.tensor import Tensor

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "hooks.md"
if not PAGE.is_file():
    pytest.skip("docs/ is not in this copy of the sources", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")
START, *BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_code_block_runs_after_the_first_one(number):
    exec(compile(START + BLOCKS[number], f"hooks.md, Python block {number + 2}", "exec"), {})


def test_what_the_page_points_to_exists():
    prose = re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    headings = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in titles}
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", prose):
        path, _, anchor = target.partition("#")
        assert (DOCS / path).exists(), target
        assert not anchor or anchor in headings, target


def test_every_method_that_registers_a_hook_is_on_the_page():
    for owner in (Tensor, nn.Module, optim.Optimizer, autograd.graph.Node):
        for name in dir(owner):
            if re.fullmatch(r"register_\w*hook", name) and name != "register_backward_hook":
                assert name.removeprefix("register_") in TEXT, f"{owner.__name__}.{name}"


def test_the_picture_is_drawn_by_its_script(tmp_path):
    pytest.importorskip("matplotlib")
    script = runpy.run_path(str(DOCS / "draw_barriers.py"))
    script["draw"](tmp_path / "barriers.png")
    assert 10_000 < (tmp_path / "barriers.png").stat().st_size < 200_000
    assert (DOCS / "barriers.png").stat().st_size < 200_000
