"""Many programs in one go, and the table of what they had in them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from fuzz.checking import Wrong, check
from fuzz.drawing import programs
from fuzz.program import Program


def checked(count: int, counts: Counter[str], torch: Any = None, seed: int | None = None) -> None:
    """Check so many programs with every oracle and add what they had to `counts`. seed: None draws
    the same programs each time. Errors: Wrong, with the smallest program found that is."""

    @settings(
        max_examples=count, derandomize=seed is None, database=None, deadline=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False, print_blob=False, verbosity=hypothesis.Verbosity.quiet,
    )  # fmt: skip
    @given(programs())
    def every(program: Program) -> None:
        try:
            found = check(program, torch)
        except Wrong:
            raise
        except Exception as error:
            raise Wrong(f"an oracle could not run: {error!r}\n\n{program.script()}") from error
        counts.update(found)
        counts["programs"] += 1

    (every if seed is None else hypothesis.seed(seed)(every))()


def table(counts: Counter[str]) -> str:
    """Features and oracles with the number of programs that had them."""
    told = (n for n in counts if n != "programs" and not n.startswith("op "))
    names = sorted(told, key=lambda n: ("oracle" in n, n))
    return "\n".join(f"{name:48} {counts[name]:7}" for name in names)
