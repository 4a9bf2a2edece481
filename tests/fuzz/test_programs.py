"""Random programs hold what the oracles say that need no torch (with it: tests/oracle)."""

from __future__ import annotations

from collections import Counter

import pytest

from fuzz.many import checked
from fuzz.running import KINDS
from fuzz.sweep import swept, uncovered

PROGRAMS = 500


@pytest.mark.cpu_only(reason="the bits of a sum and finite differences are NumPy's")
def test_random_programs_have_the_same_bits_without_observers_and_right_gradients():
    counts: Counter[str] = Counter()
    checked(PROGRAMS, counts)
    assert counts["programs"] >= PROGRAMS * 0.9
    wanted = [f"{kind} hook" for kind in KINDS]
    wanted += [f"a hook that may {a}" for a in ("observe", "scale", "replace", "remove", "raise")]
    wanted += [
        "operation of the table",
        "view",
        "write in place",
        "call of a module",
        "nested module",
        "saved-tensor hooks",
    ]
    wanted += ["create_graph", "backward with retain_graph", "grad()", "backward(inputs=)"]
    wanted += ["oracle: without observers", "oracle: finite differences"]
    wanted += ["oracle: edited as returned"]
    missing = [feature for feature in wanted if not counts[feature]]
    assert not missing, f"no program of {PROGRAMS} had {missing}"


@pytest.mark.cpu_only(reason="finite differences are NumPy's")
def test_every_op_gives_the_same_however_it_is_posed():
    counts: Counter[str] = Counter()
    wrong = swept(counts)
    assert not wrong, "\n\n".join(wrong)
    assert uncovered(counts) == []
    assert counts["oracle: finite differences"] > 800
