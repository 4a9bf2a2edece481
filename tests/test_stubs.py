"""The committed stubs are what the op table gives."""

from __future__ import annotations

import make_stubs
import pytest


@pytest.mark.parametrize("file", make_stubs.STUBS)
def test_a_stub_is_what_make_stubs_writes_now(file: str) -> None:
    committed = (make_stubs.PACKAGE / file).read_text(encoding="utf-8")
    assert committed == make_stubs.STUBS[file](), "run: python tests/make_stubs.py"
