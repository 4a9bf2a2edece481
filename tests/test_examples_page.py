"""docs/examples.md has every example, its picture and its command, as the scripts take it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from example_scripts import FOLDER, example

PAGE = Path(__file__).resolve().parent.parent / "docs" / "examples.md"
if not PAGE.is_file():
    pytest.skip("docs/ is not in this copy of the sources", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")
COMMANDS = re.findall(r"^    python (.*)$", TEXT, re.MULTILINE)
SCRIPTS = [p for p in sorted(FOLDER.glob("*.py")) if "def main(" in p.read_text("utf-8")]


def test_the_page_has_every_example_its_picture_and_its_command():
    for path in SCRIPTS:
        name = path.stem
        assert f"| [{name}.py](../examples/{name}.py) |" in TEXT
        assert f"examples/{name}.py --output {name}.png" in COMMANDS
        assert f"python examples/{name}.py --output {name}.png" in path.read_text("utf-8")
        assert (FOLDER / f"{name}.png").stat().st_size < 60_000
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT):
        assert (PAGE.parent / target).exists(), f"the page points to {target}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_one_that_its_script_takes(command, monkeypatch):
    """Its options are parsed; the scripts' own tests run them."""
    path, *arguments = shlex.split(command)
    script = example(Path(path).stem)

    class Parsed(Exception):
        """In place of the work."""

    def parse(parser, given):
        _, unknown = parser.parse_known_args(given)
        raise Parsed(unknown)

    monkeypatch.setattr(script.argparse.ArgumentParser, "parse_args", parse)
    with pytest.raises(Parsed) as end:
        script.main(arguments)
    assert end.value.args == ([],)
