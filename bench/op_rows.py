"""Each table op, forward and backward, against its NumPy calls: what recording and running cost.

    python -m bench --ops            # every op, at 8 and at 100,000 elements
    python -m bench --ops cumsum     # only ops whose name contains this text

gradhook: the op recorded on leaves that require grad, then one backward from all results; raw: the
table's forward and formulas of the same inputs, called directly on the arrays, with the sums and
copies that .grad takes. The samples are the
rows of the op tests (tests/op_cases), made longer along their first axis for the large size where
the op allows it, and those of SAMPLES.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradhook
from bench.compare import compare, lowest
from bench.table import duration
from gradhook.autograd.carriers import FORMULA_NAMESPACES
from gradhook.autograd.graph import conform
from gradhook.autograd.op_node import plan_of
from gradhook.autograd.record import ops
from gradhook.ops.table import TABLE, Op

TESTS = Path(__file__).resolve().parent.parent / "tests"
LARGE = 100_000
TARGETS = {"small": 3.0, "large": 1.3}  # gradhook / raw
COPIES, SECONDS = 64, 0.05  # of the op in one graph, which share the start of a run; of all
Array = np.ndarray[Any, Any]
# Families measured at the small size only: seconds an op, or a kernel as long as its input.
SLOW = ("linalg", "bessel", "filtering", "signal", "sparse")


class Sample(NamedTuple):
    """inputs: arrays or None, positional; attributes: keyword-only. places: of the inputs that
    get a gradient.
    """

    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    places: tuple[int, ...]


def sample_of(row: Op, inputs: Any, attributes: dict[str, Any], constant: Any = ()) -> Sample:
    """float32 instead of float64; gradients for the floating inputs that have a formula."""
    arrays = tuple(
        x.astype(np.float32) if x is not None and np.asarray(x).dtype.kind == "f" else x
        for x in inputs
    )
    places = tuple(
        k
        for k, x in enumerate(arrays)
        if x is not None
        and x.dtype.kind in "fc"
        and k not in constant
        and row.formulas[row.inputs[0 if row.variadic else k]] is not None
    )
    return Sample(arrays, attributes, places)


def large_samples() -> dict[str, Sample]:
    """Ops whose small sample cannot just be made longer: LARGE elements read, written or made."""
    rng = np.random.default_rng(5)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape)

    def at(n: int, *shape: int) -> Array:
        return rng.integers(0, n, shape)

    rows: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "matmul": ((normal(316, 316), normal(316, 316)), {}),
        "bmm": ((normal(100, 32, 32), normal(100, 32, 32)), {}),
        "mv": ((normal(1000, 100), normal(100)), {}),
        "put_index": ((normal(1000, 100),), {"index": (at(1000, 1000),), "shape": (1000, 100)}),
        "index_accumulate": (
            (normal(1000, 100), at(1000, 1000)), {"axis": 0, "shape": (1000, 100)},
        ),
        "scatter_rows": ((normal(1000, 100), at(1000, 1000)), {"shape": (1000, 100)}),
        "cross_entropy": ((normal(1000, 100), at(100, 1000)), {}),
        "nll_loss": ((normal(1000, 100), at(100, 1000)), {}),
        "view": ((normal(LARGE),), {"shape": (1000, -1)}),
        "broadcast_to": ((normal(1, LARGE),), {"shape": (4, LARGE)}),
    }  # fmt: skip
    return {n: sample_of(TABLE[n], *row) for n, row in rows.items()}


def small_samples() -> dict[str, Sample]:
    """The first row of each table op in tests/op_cases."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    found = {}
    for name, rows in importlib.import_module("op_cases").cases().items():
        row, case = TABLE[name], rows[0]
        if row.composite or case.before or not any(row.formulas.values()):
            continue
        sample = sample_of(row, case.inputs, case.attributes, case.constant)
        if sample.places:
            found[name] = sample
    return found


def longer(name: str, sample: Sample) -> Sample | None:
    """The sample with about LARGE elements, None where the op does not allow any of the ways."""
    row, inputs = TABLE[name], sample.inputs
    if row.forward.__module__.rpartition(".")[2].startswith(SLOW):
        return None
    largest = max((x for x in inputs if x is not None), key=lambda x: x.size)
    deep = [x is not None and x.ndim == largest.ndim > 0 for x in inputs]
    same = [x is not None and x.shape == largest.shape for x in inputs]
    first = [k == 0 and x is not None and x.ndim > 0 for k, x in enumerate(inputs)]
    times = LARGE // max(largest.size, 1)
    for chosen in (deep, same, first):
        if chosen[0] and is_linear(row, repeated(sample, chosen, 8), repeated(sample, chosen, 32)):
            return repeated(sample, chosen, times)
    return None


def repeated(sample: Sample, chosen: list[bool], times: int) -> Sample:
    """The chosen inputs `times` as long, those of length 1 as they are."""
    arrays = tuple(
        np.concatenate([x] * times) if long and x.shape[0] > 1 else x
        for x, long in zip(sample.inputs, chosen, strict=True)
    )
    return Sample(arrays, sample.attributes, sample.places)


def is_linear(row: Op, small: Sample, large: Sample) -> bool:
    """Whether the op takes both, and four times the elements give at most about four times."""
    sizes, seconds = [], []
    for sample in (small, large):
        try:
            step = raw_step(row, sample, 1)
            step()
            begin = time.process_time()
            step()
            seconds.append(time.process_time() - begin)
            out = outputs(row.forward(np, *sample.inputs, **sample.attributes))
        except Exception:
            return False
        sizes.append(max(x.size for x in (*sample.inputs, *out) if x is not None))
    return sizes[0] * 2 < sizes[1] < sizes[0] * 6 and seconds[1] < 0.01


def is_chain(row: Op, sample: Sample) -> bool:
    """Whether the result can be the first input again: then copies are a chain from one leaf, so
    that a copy is one op and one node, and nothing else.
    """
    out = row.forward(np, *sample.inputs, **sample.attributes)
    first = sample.inputs[0]
    alike = isinstance(out, np.ndarray) and out.shape == first.shape and out.dtype == first.dtype
    return bool(alike and 0 in sample.places and not row.variadic)


def raw_step(row: Op, sample: Sample, copies: int) -> Callable[[], list[Any]]:
    """The forward and the formulas on bare arrays, `copies` times; gives the gradients."""
    xp = FORMULA_NAMESPACES[np.ndarray]
    chain = copies > 1 and is_chain(row, sample)
    places = (0,) if chain else sample.places
    seeds = [
        np.ones(o.shape, o.dtype)
        for o in outputs(row.forward(np, *sample.inputs, **sample.attributes))
    ]
    given = [  # as the recorded side's: no copy finds its inputs in the cache
        [None if x is None else np.array(x) for x in sample.inputs]
        for _ in range(1 if chain else copies)
    ]
    calls = [formula_calls(row, sample._replace(inputs=tuple(x), places=places)) for x in given]
    rows = given * copies if chain else given
    formulas = calls * copies if chain else calls
    forward, attributes = row.forward, sample.attributes
    read = {p for f in plan_of(row).formulas(1) for p in f.parameters} if chain else set()
    keeps_input, keeps_out = not chain or row.inputs[0] in read, not chain or "out" in read

    def step() -> list[Any]:
        kept: list[Any] = []  # what a graph keeps, and as long
        out: Any = rows[0][0]
        for arrays in rows:
            x = out if chain else arrays[0]
            out = forward(np, x, *arrays[1:], **attributes)
            kept.append((x if keeps_input else None, out if keeps_out else None))
        gradient: Any = seeds
        grads: list[Any] = []
        for k in reversed(range(copies)):
            x, out = kept.pop() if chain else kept[k]  # roots stay, a graph's values go
            for fn, leaves, parameters in formulas[k]:
                found = fn(xp, *[p(x, out, gradient) for p in parameters])
                if not chain:
                    grads += [
                        kept_by(x, g, gradient)
                        for x, g in zip(leaves, outputs(found), strict=False)
                    ]
            if chain:
                gradient = (found[0] if isinstance(found, tuple) else found,)
        return [kept_by(rows[0][0], gradient[0], seeds)] if chain else grads

    return step


def formula_calls(row: Op, sample: Sample) -> list[tuple[Any, list[Any], list[Any]]]:
    """Of each formula in use: the function, the inputs it is the gradient of, and what gives its
    parameters from the first input, the result and the gradients.
    """
    plan, known = plan_of(row), constants(row, sample, sample.places)
    mask = sum(1 << k for k, n in enumerate(plan.differentiable) if needed(row, n, sample.places))
    return [
        (
            f.fn,
            list(sample.inputs) if row.variadic else [known[n] for n in f.of],
            [bound(row, p, known) for p in f.parameters],
        )
        for f in plan.formulas(mask)
    ]


def kept_by(x: Array, g: Any, seeds: list[Array]) -> Any:
    """What the .grad of x keeps: the gradient in x's shape and dtype, a copy where others hold its
    memory.
    """
    if g is None:
        return None
    if g.shape != x.shape or g.dtype != x.dtype:
        g = conform(FORMULA_NAMESPACES[np.ndarray], g, x.shape, x.dtype)
    return g.copy() if g.base is not None or g is seeds[0] else g


def needed(row: Op, name: str, places: tuple[int, ...]) -> bool:
    return row.variadic or row.inputs.index(name) in places


def outputs(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple | list) else [out]


def constants(row: Op, sample: Sample, places: tuple[int, ...]) -> dict[str, Any]:
    """What formulas name and a step does not change."""
    arrays = list(sample.inputs)
    known: dict[str, Any] = {**row.attributes, **sample.attributes}
    if row.variadic:
        known |= {row.inputs[0]: arrays, f"{row.inputs[0]}_shape": [a.shape for a in arrays]}
        return known | {"needs": tuple(k in places for k in range(len(arrays)))}
    arrays += [None] * (len(row.inputs) - len(arrays))
    for n, a in zip(row.inputs, arrays, strict=True):
        known |= {n: a, f"{n}_shape": None if a is None else a.shape}
    return known | {"needs": tuple(k in places for k in range(len(row.inputs)))}


def bound(row: Op, parameter: str, known: dict[str, Any]) -> Callable[[Any, Any, Any], Any]:
    """What gives a formula's parameter from the first input, the result and the gradients."""
    if parameter == row.inputs[0] and not row.variadic:
        return lambda x, out, g: x
    if parameter in known:
        value = known[parameter]
        return lambda x, out, g: value
    if parameter == "g":
        return lambda x, out, g: g[0] if len(g) == 1 else g
    if parameter == "out":
        return lambda x, out, g: out
    k = int(parameter.lstrip("gout"))
    return (lambda x, out, g: g[k]) if parameter[0] == "g" else (lambda x, out, g: out[k])


def recorded_step(name: str, sample: Sample, copies: int) -> Callable[[], list[Any]]:
    """The same recorded, and one backward: a chain from one leaf, or each copy of its leaves."""
    call, backward = getattr(ops, name), gradhook.autograd.backward
    chain = is_chain(TABLE[name], sample)
    rows, attributes = [], sample.attributes
    for _ in range(1 if chain else copies):
        given = [None if x is None else gradhook.from_numpy(np.array(x)) for x in sample.inputs]
        for k in (0,) if chain else sample.places:
            given[k].requires_grad_()
        rows.append(given)
    leaves = [t for given in rows for t in given if t is not None and t.requires_grad]
    found = outputs(call(*rows[0], **attributes))
    used = [k for k, t in enumerate(found) if t.requires_grad]
    seeds = [gradhook.ones_like(found[k]) for k in used] * len(rows)

    def step() -> list[Any]:
        if chain:
            x, *rest = rows[0]
            for _ in range(copies):
                x = call(x, *rest, **attributes)
            roots = [x]
        else:
            made = [outputs(call(*given, **attributes)) for given in rows]
            roots = [out[k] for out in made for k in used]
        backward(roots, seeds)
        grads = [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        return grads

    return step


def indexing(touched: int, rows: int = 100_000) -> Callable[[], None]:
    """Forward and backward of x[index] with so many elements of x, float32, (rows,)."""
    x = gradhook.from_numpy(np.zeros(rows, np.float32)).requires_grad_()
    index = gradhook.from_numpy(np.random.default_rng(3).integers(0, rows, touched))
    seed = gradhook.ones(touched)

    def step() -> None:
        x[index].backward(seed)
        x.grad = None

    return step


def indexing_line() -> str:
    """Nanoseconds an element that x[index] touches: constant where its cost is linear in them."""
    counts = (LARGE // 10, LARGE, LARGE * 10)
    found = {str(n): indexing(n) for n in counts}
    timings = lowest(found, rounds=5)
    each = ", ".join(f"{1e9 * timings[str(n)] / n:.2f} of {n:,}" for n in counts)
    return f"x[index] of 100,000 and its backward, ns an element touched: {each}"


class Result(NamedTuple):
    """Seconds of one forward and backward, gradhook's and raw, and the median of their ratios."""

    own: float
    raw: float
    ratio: float


def copies_of(row: Op, sample: Sample) -> int:
    """COPIES, but fewer of an op that takes long, beside which the start of a run is nothing."""
    step = raw_step(row, sample, 1)
    step()
    begin = time.process_time()
    step()
    seconds = time.process_time() - begin
    return max(4, min(COPIES, int(SECONDS / max(seconds, 1e-9))))


def measure(name: str, sample: Sample, rounds: int) -> Result:
    """One op at one size."""
    copies = copies_of(TABLE[name], sample)
    steps = {
        "gradhook": recorded_step(name, sample, copies),
        "raw": raw_step(TABLE[name], sample, copies),
    }
    found = compare(steps, rounds, sample_seconds=0.004)
    own, raw = found["gradhook"].seconds / copies, found["raw"].seconds / copies
    return Result(own, raw, found["raw"].ratio)


def samples(only: str = "") -> dict[str, dict[str, Sample]]:
    """By size and op."""
    small = {n: s for n, s in small_samples().items() if only in n}
    large = {n: s for n, x in small.items() if (s := longer(n, x)) is not None}
    large |= {n: s for n, s in large_samples().items() if only in n}
    return {"small": small, "large": large}


def run(only: str = "", rounds: int | None = None) -> int:
    """Print a line an op and size, the slowest ratio first, and how many are within the target.

    *: no chain, so that each copy has leaves, an accumulation and a root of its own, which the raw
    side has not.
    """
    gc.collect()
    gc.freeze()  # the samples' collections have less to look at
    for size, chosen in samples(only).items():
        target = TARGETS[size]
        with warnings.catch_warnings(action="ignore"):  # of values that leave an op's domain
            found = {n: measure(n, s, rounds or 5) for n, s in chosen.items()}
        print(f"{size}: {'op':<24}{'gradhook':>10}{'raw':>10}{'/ raw':>8}   target {target}")
        for name, r in sorted(found.items(), key=lambda item: -item[1].ratio):
            verdict = "" if r.ratio <= target else "  over"
            name += "" if is_chain(TABLE[name], chosen[name]) else " *"
            line = f"{'':<7}{name:<24}{duration(r.own):>10}{duration(r.raw):>10}{r.ratio:>8.2f}"
            print(line + verdict, flush=True)
        within = sum(r.ratio <= target for r in found.values())
        print(f"{size}: {within} of {len(found)} ops within {target}", flush=True)
    print(indexing_line())
    gc.unfreeze()
    return 0
