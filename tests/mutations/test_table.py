"""The mutations still fit the source: every text is there, and every change gives a module."""

from __future__ import annotations

import ast

from mutations.table import FILES, everything, found


def test_every_mutation_changes_its_file_into_another_that_python_reads():
    for m in everything():
        ast.parse(m.text(), m.file)
        assert m.old != m.new


def test_what_orders_work_is_found_by_its_name_in_every_file_that_does():
    for file in FILES:
        assert found(file), f"{file}: nothing there orders work; take it out of FILES"
    texts = [m.old for m in everything()]
    for text in ("self.cupy.wait_event(event.cupy)", "self.event.synchronize()", "copy.wait()"):
        assert text in texts
