"""The results of a run beside exceptions.txt: one line a test, `name mode reason`.

name is file.Class.test, mode is default, compat or both. A failure that is not listed is an error,
and so is a listed test that passes, or that there is not: the list says the truth.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).with_name("exceptions.txt")
MODES = ("default", "compat")


def exceptions(text: str) -> dict[str, dict[str, str]]:
    """For each mode the tests that may fail, with the reason. ValueError names a bad line."""
    listed: dict[str, dict[str, str]] = {mode: {} for mode in MODES}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(maxsplit=2)
        if len(parts) < 3 or parts[1] not in (*MODES, "both"):
            raise ValueError(f"line {number}: found {line!r}, expected: name mode reason")
        name, where, reason = parts
        for mode in MODES if where == "both" else (where,):
            if name in listed[mode]:
                raise ValueError(f"line {number}: {name} is listed twice for {mode}")
            listed[mode][name] = reason
    return listed


def outcomes(report: str) -> dict[str, str]:
    """passed, failed or skipped for each test of a JUnit report."""
    found = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        where = case.get("classname", "").replace("_cut", "").split(".")[-2:]
        tags = {child.tag for child in case}
        failed = bool(tags & {"failure", "error"})
        found[".".join([*where, case.get("name", "")])] = (
            "failed" if failed else "skipped" if "skipped" in tags else "passed"
        )
    return found


def complaints(found: dict[str, str], listed: dict[str, str]) -> list[str]:
    """What is wrong with the results, a line each; empty when they are as listed."""
    wrong = [f"{x} fails and is not listed" for x, y in found.items() if y == "failed"]
    wrong = [line for line in wrong if line.split()[0] not in listed]
    for name in listed:
        outcome = found.get(name, "not there")
        if outcome != "failed":
            wrong.append(f"{name} is listed, and {outcome}")
    return sorted(wrong)


def table(found: dict[str, str]) -> list[str]:
    """The results by file: how many passed, failed and were skipped."""
    counts = Counter((name.split(".")[0], outcome) for name, outcome in found.items())
    kinds = ("passed", "failed", "skipped")
    return [
        "  ".join([f"{file:<24}", *(f"{counts[file, kind]:4d} {kind}" for kind in kinds)])
        for file in sorted({file for file, _ in counts})
    ]
