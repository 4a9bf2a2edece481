"""What must hold of a program: the oracles.

torch, where it defines the program; the same program without hooks that only look; returned instead
of edited gradients; finite differences.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from typing import Any

import gradhook
from fuzz.program import Block, Hook, Program, within
from fuzz.running import Outcome, outcome

STEP = 1e-6  # of finite differences, in float64
STALE = "modified by an inplace operation"
# What torch refuses, or takes for wrong, and gradhook does right (docs/deviations.md): then torch
# is no oracle.
REFUSED_BY_TORCH = (
    "is a view and is being modified inplace",
    "its base or another view of its base has been modified inplace",
    "A view was created in no_grad mode and is being modified inplace",
    "A leaf node was passed to _will_engine_execute_node",
    STALE,
    "unsupported operation",
    "derivative for 'inplace version of",
    "derivative for aten::",
)
SAME_REFUSALS = (
    "a leaf Variable that requires grad is being used in an in-place operation",
    "a view of a leaf Variable that requires grad is being used in an in-place",
    "Trying to backward through the graph a second time",
    STALE,
    "does not require grad",
    "One of the differentiated Tensors",
)


class Wrong(AssertionError):
    """An oracle says otherwise. The message holds the program."""


def refusal(error: tuple[str, str, int] | None) -> Any:
    """Type, PyTorch's sentence and line of what ended a run."""
    if error is None:
        return None
    kind, text, line = error
    return kind, next((s for s in SAME_REFUSALS if s in text), text), line


def run(program: Program, lib: Any = gradhook) -> Outcome:
    return outcome(program.text(), lib)[0]


def events(log: list[Any]) -> list[Any]:
    """What a log tells of order on both libraries. Without events that saw only None or zeros, and
    those of the second run of a double backward (D4); of node hooks in a pass for some inputs only
    what came in, as torch computes no gradient there that nobody asked for. Leaves that are ready
    at once fire in any order (deviation 13): neighbouring events of leaves are sorted."""
    found, double, part = [], False, False
    for event in log:
        if event[0] in ("double", "end of double"):
            double = event[0] == "double"
        elif event[0] in ("whole", "part"):
            part = event[0] == "part"
        elif not (double or empty(event[2:])):
            found.append((*event[:2], event[-1]) if part and event[0].endswith("post") else event)
    runs = groupby(found, lambda event: event[0].startswith("leaf"))
    return [event for leaf, run in runs for event in (sorted(run, key=str) if leaf else run)]


def empty(value: Any) -> bool:
    return value is None or (isinstance(value, tuple) and all(map(empty, value)))


def results(log: list[Any]) -> list[Any]:
    return [event for event in log if event[0] in ("values", "result")]


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two values are equal, or close; tolerance 0: equal bit for bit."""
    if a is None or b is None:
        return a is b
    if isinstance(a, tuple | list):
        same_kind = isinstance(b, tuple | list) and len(a) == len(b)
        return same_kind and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, complex) and isinstance(b, complex):
        parts = zip((a.real, a.imag), (b.real, b.imag), strict=True)
        return all(close(x, y, tolerance) for x, y in parts)
    if not (isinstance(a, float) and isinstance(b, float)):
        return bool(a == b)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b if not tolerance else math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def must(holds: bool, program: Program, what: str, found: Any, expected: Any) -> None:
    if not holds:
        told = f"{what}\n  found:    {found}\n  expected: {expected}\n"
        raise Wrong(f"{told}\n{program.script()}")


def check_torch(program: Program, torch: Any) -> str:
    """Events, values, gradients and errors are torch's. Returns what came of it."""
    if not all(step.on_torch for step in program.operations()):
        return "no oracle: an op that torch has not, or has otherwise"
    if any(map(views_without_record, program.every())):
        return "no oracle: views under no_grad"  # deviations 8 and 16
    expected = run(program.edits_returned(), torch)
    found = run(program.edits_returned())
    refused = expected.error and any(s in expected.error[1] for s in REFUSED_BY_TORCH)
    if refused and refusal(expected.error) != refusal(found.error):
        return "refused by torch"
    errors = refusal(found.error), refusal(expected.error)
    if errors[0] != errors[1] and STALE in str(errors[0]) and "run.saved" in program.text():
        return "no oracle: torch's saved-tensor hooks hide a write"  # D19
    must(errors[0] == errors[1], program, "errors differ from torch's", *errors)
    if expected.error is not None:
        return "ended alike by an error"
    for name, of in (("values and results", results), ("events", events)):
        pair = of(found.log), of(expected.log)
        must(close(*pair, 1e-9), program, f"{name} differ from torch's", *difference(*pair))
    for name in ("leaves", "retained"):
        pair = getattr(found, name), getattr(expected, name)
        must(close(*pair, 1e-9), program, f"gradients ({name}) differ from torch's", *pair)
    return "as torch"


def views_without_record(step: Any) -> bool:
    """Whether a step makes views, or calls what may, under no_grad."""
    if not (isinstance(step, Block) and "no_grad" in step.features):
        return False
    inside = {f for inner in within(step.body) for f in inner.features}
    return bool(inside & {"view", "call of a module"})


def difference(found: list[Any], expected: list[Any]) -> tuple[Any, Any]:
    """The first entries that differ, with their place."""
    for k, (a, b) in enumerate(zip(found, expected, strict=False)):
        if not close(a, b, 1e-9):
            return (k, a), (k, b)
    k = min(len(found), len(expected))
    return (k, found[k:]), (k, expected[k:])


def check_observers(program: Program) -> str:
    """Hooks that only look change no bit. Barriers of modules regroup sums: without them the bits
    are compared where all values are whole numbers, else up to rounding."""
    if not any(h.observing for h in program.hooks()):
        return "no observer"
    full = run(program)
    ways = [("hooks but full ones", lambda hook: hook.kind.startswith("full"), 0.0)]
    # A barrier makes every output depend on every input, so that more of the graph is reached.
    partly = ("part",) in full.log
    if not any((h.passed or partly) and not h.observing for h in program.hooks()):
        tolerance = 0.0 if program.exact and small(full) else 1e-11
        ways.append(("hooks", lambda hook: False, tolerance))
    for what, kept, tolerance in ways:
        bare_program = program.without_observers(kept)
        bare = run(bare_program)
        pair = [e and e[:2] for e in (refusal(full.error), refusal(bare.error))]
        if pair[0] != pair[1] and pair[1] and STALE in pair[1] and "copy" in program.text():
            return "copies hide a write"
        must(pair[0] == pair[1], program, f"observing {what} change the error", *pair)
        acting = {h.handle for h in bare_program.hooks()}
        for name, of in (
            ("values", results),
            ("events", lambda log, acting=acting: [e for e in log if acts(e, acting)]),
        ):
            logs = of(full.log), of(bare.log)
            told = difference(*logs)
            must(close(*logs, tolerance), program, f"observing {what} change {name}", *told)
        leaves = full.leaves, bare.leaves
        must(close(*leaves, tolerance), program, f"observing {what} change gradients", *leaves)
    return "without observers"


def check_posing(program: Program) -> str:
    """Views, layouts, writes and hooks round an op of the table change nothing."""
    if not any(step.posed for step in program.operations()):
        return "no op posed otherwise"
    found, plain = run(program), run(program.plainly_posed())
    errors = refusal(found.error), refusal(plain.error)
    must(errors[0] == errors[1], program, "how an op is posed changes the error", *errors)
    pairs = [(results(found.log), results(plain.log)), (found.leaves, plain.leaves)]
    for pair in pairs:
        told = difference(*pair)
        must(close(*pair, 1e-9), program, "how an op is posed changes what comes out", *told)
    return "posed plainly"


def acts(event: Any, acting: set[str]) -> bool:
    return len(event) > 2 and event[1] in acting


def small(found: Outcome) -> bool:
    """Whether all numbers are so small that float64 adds them exactly."""
    return largest((found.log, found.leaves)) < 2.0**45


def largest(value: Any) -> float:
    if isinstance(value, tuple | list):
        return max(map(largest, value), default=0.0)
    return abs(value) if isinstance(value, float) else 0.0


def check_edits(program: Program) -> str:
    """A gradient edited in place by a hook is as one returned by it, and nobody else's."""
    if not any(h.action == "edit" for h in program.hooks()):
        return "no edit"
    if any(h.kind == "multi" for h in program.hooks()):  # keeps the Tensor that is then edited
        return "no edit"
    found, expected = run(program), run(program.edits_returned())
    errors = refusal(found.error), refusal(expected.error)
    must(errors[0] == errors[1], program, "an edit in place changes the error", *errors)
    logs = found.log, expected.log
    must(close(*logs, 0.0), program, "an edit in place is not as a return", *difference(*logs))
    leaves = found.leaves, expected.leaves
    must(close(*leaves, 0.0), program, "an edit in place is not as a return", *leaves)
    return "edited as returned"


def check_differences(program: Program) -> str:
    """Gradients of the total are its finite differences, in one direction."""
    changing = [h for h in program.hooks() if changes_gradients(h)]
    if not program.smooth or changing:
        return "not smooth"
    text = program.text()
    middle = outcome(text, gradhook, only_forward=True)
    if middle[0].error is not None or not middle[1].total_needs_gradient():
        return "not smooth"
    try:
        slope = middle[1].slope()
    except RuntimeError as error:
        must(STALE in str(error), program, "a pass failed", error, STALE)
        return "not smooth"
    ends = [forward(text, shift) for shift in (STEP, -STEP)]
    found = (ends[0] - ends[1]) / (2 * STEP)
    tolerance = 1e-5 * max(1.0, abs(slope), abs(ends[0]))
    same = math.isclose(found, slope, abs_tol=tolerance)
    must(same, program, "the gradient is no finite difference", slope, found)
    return "finite differences"


def forward(text: str, shift: float) -> float:
    moved = outcome(text, gradhook, shift=shift, only_forward=True)[1]
    return float(moved.sum.item())


def changes_gradients(hook: Hook) -> bool:
    return not hook.observing and not hook.kind.startswith("forward")


def check(program: Program, torch: Any = None) -> Counter[str]:
    """All oracles. Returns what each made of the program, and the features that ran."""
    told = [check_observers(program), check_edits(program), check_differences(program)]
    told += [check_posing(program)]
    told += [check_torch(program, torch)] if torch is not None else []
    features = {f for step in program.every() for f in step.features}
    if "create_graph" in features:
        features |= {f"op {step.name}: create_graph" for step in program.operations()}
    return Counter([*[f"oracle: {t}" for t in told], *features])
