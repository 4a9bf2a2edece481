"""Random programs of hooked modules, views, writes and passes give torch's events, values,
gradients and errors, where torch defines them (the generator: tests/fuzz).
"""

from __future__ import annotations

from collections import Counter

import pytest
from fuzz.many import checked
from fuzz.sweep import swept

torch = pytest.importorskip("torch", reason="differential tests need torch")


def test_random_programs_do_what_torch_does():
    counts: Counter[str] = Counter()
    checked(500, counts, torch)
    assert counts["oracle: as torch"] > 250


def test_every_op_does_what_torch_does_however_it_is_posed():
    counts: Counter[str] = Counter()
    wrong = swept(counts, torch)
    assert not wrong, "\n\n".join(wrong)
    assert counts["oracle: as torch"] > 450
