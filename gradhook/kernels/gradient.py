"""Accumulation fused with device hooks: K gradients summed, changed and noted in one launch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradhook import backend, profiler
from gradhook.kernels.accumulation import ARRAYS_A_LAUNCH, accumulate
from gradhook.kernels.launch import (
    C_TYPES,
    THREADS,
    General,
    Kernel,
    dtype_name,
    is_known,
    is_plain,
    sum_type,
)
from gradhook.kernels.sources import source, target

TOTALS = "low high sum squares zeros nans infs count".split()
GRADIENTS, LAST_SQUARES, MEAN, MEAN_SQUARE, BINS, SIZE = 8, 9, 10, 11, 16, 80
_MOST_BLOCKS = 1024


class Stage(NamedTuple):
    """One step of a chain of hooks.

    change: C++ of the new gradient over `g`, `noted` and the numbers as {0}, {1}, ...; "" when it
    only observes. numbers: what goes in there. noted: the device buffer of SIZE float64 that it
    writes (observes) or reads. bins: also count magnitudes. decay: of the running means.
    apart: what it reads must be complete, so it starts a launch of its own.
    """

    change: str = ""
    numbers: tuple[float, ...] = ()
    noted: Any = None
    observes: bool = False
    bins: bool = False
    decay: float = 0.0
    apart: bool = False


Form = tuple[str, int, bool, bool, bool]


def form(stage: Stage) -> Form:
    """What the text depends on."""
    read = stage.noted is not None
    return stage.change, len(stage.numbers), read, stage.observes, stage.bins


def fused(arrays: Sequence[Any], stages: Sequence[Stage]) -> Any:
    """The sum of the arrays (one shape, one real floating dtype, any strides) after the stages, in
    a fresh array: one launch, and one more for each stage that stands apart. One array that is only
    observed comes back itself.
    """
    if len(arrays) > ARRAYS_A_LAUNCH:
        head = accumulate(arrays[: 1 - ARRAYS_A_LAUNCH])
        arrays = [head, *arrays[1 - ARRAYS_A_LAUNCH :]]
    observed = len(arrays) == 1 and not any([s.change for s in stages])
    first = arrays[0]
    out = first if observed else backend.cupy().ndarray(first.shape, first.dtype)
    if not out.size:
        return out
    begin = 0
    for k in range(1, len(stages) + 1):
        if k == len(stages) or stages[k].apart:
            _launch(arrays, stages[begin:k], out)
            arrays, begin = (out,), k
    return out


def _launch(arrays: Sequence[Any], stages: Sequence[Stage], out: Any) -> None:
    n, kind = out.size, sum_type(out.dtype)
    numbers = [kind(x) for s in stages for x in s.numbers]
    buffers = [s.noted for s in stages if s.noted is not None]
    decays = [np.float64(s.decay) for s in stages if s.observes]
    blocks = max(1, min((n + 4 * THREADS - 1) // (4 * THREADS), _MOST_BLOCKS))
    partials = []
    if decays:
        partials.append(backend.cupy().ndarray((len(decays) * blocks * len(TOTALS),), np.float64))
    stored = (
        (out,) if len(arrays) > 1 or out is not arrays[0] or any([s.change for s in stages]) else ()
    )
    key = (len(arrays), dtype_name(out), tuple([form(s) for s in stages]), bool(stored))
    nbytes = out.nbytes * (len(arrays) + len(stored))
    if is_plain(out, *arrays):
        args = (*arrays, *stored, *buffers, *partials, n, *numbers, *decays)
        contiguous(*key)((blocks,), (THREADS,), args, nbytes)
        return
    kernel = _general(*key)
    args = (
        *arrays,
        *buffers,
        *partials,
        np.int64(n),
        *numbers,
        *decays,
        out,
    )  # unused unless stored
    kernel(*args, size=blocks * THREADS, block_size=THREADS)
    profiler.count_launch(kernel.name, nbytes)


class _Text:
    """The text of one chain: its parameters and its statements. wide: the type of sums."""

    def __init__(self, n: int, dtype: str, forms: tuple[Form, ...], stores: bool) -> None:
        self.element, self.wide = C_TYPES[dtype]
        self.inputs = [f"x{k}" for k in range(n)]
        self.numbers: list[str] = []
        self.buffers: list[str] = []
        self.decays: list[str] = []
        rounded = self.element != self.wide
        before: list[str] = []
        steps = [
            f"{self.wide} g = accumulate<{self.wide}>({', '.join(f'x{k}[i]' for k in range(n))});"
        ]
        after: list[str] = []
        for k, (change, count, has_buffer, observes, bins) in enumerate(forms):
            names = [f"h{k}_{j}" for j in range(count)]
            self.numbers += names
            if has_buffer:
                self.buffers.append(f"noted{k}")
                before.append(f"double* const buffer{k} = &noted{k}[0];")
            if change:
                filled = change.format(*names, noted=f"buffer{k}", F=self.wide)
                steps.append(f"g = static_cast<{self.wide}>({filled});")
            if observes:
                if rounded:
                    steps.append(f"g = static_cast<{self.wide}>(static_cast<T>(g));")
                before.append(f"Collector<{self.wide}> seen{k};")
                steps.append(f"seen{k}.take(g);")
                if bins:
                    steps.append(f"count_magnitude(g, buffer{k} + {BINS});")
                after.append(
                    f"note(seen{k}, buffer{k}, partials_ + {len(self.decays)} * "
                    f"blocks_ * {len(TOTALS)}, decay{k});"
                )
                self.decays.append(f"decay{k}")
        if stores:
            steps.append("out[i] = static_cast<T>(g);")
        if after:
            before.append("double* const partials_ = &partials[0];")
            before.append("const long long blocks_ = number_of_blocks();")
        each = "take_elements" if after else "for_each_element"
        lines = [*before, f"{each}(n, [&](long long i) {{", *steps, "});", *after]
        self.body = "\n".join("    " + line for line in lines)


@functools.cache
def contiguous(n: int, dtype: str, forms: tuple[Form, ...], stores: bool = True) -> Kernel:
    """The kernel of contiguous arrays. stores: the result is written."""
    text = _Text(n, dtype, forms, stores)
    parameters = [f"const T* {x}" for x in text.inputs] + (["T* out"] if stores else [])
    parameters += [f"double* {b}" for b in text.buffers]
    parameters += ["double* partials"] if text.decays else []
    parameters += ["long long n", *[f"F {x}" for x in text.numbers]]
    parameters += [f"double {d}" for d in text.decays]
    name = f"gradhook_gradient_{n}_{dtype}"
    body = (
        f'extern "C" __global__ void {name}(\n    '
        + ",\n    ".join(parameters)
        + f") {{\n{text.body}\n}}"
    )
    return Kernel(name, ("accumulate", "gradient"), dtype, body)


def general_text(n: int, dtype: str, forms: tuple[Form, ...], stores: bool = True) -> General:
    """The kernel of any strides: every thread runs CuPy's loop once, the element loop is ours."""
    text = _Text(n, dtype, forms, stores)
    inputs = [f"raw T {x}" for x in text.inputs]
    inputs += [f"raw float64 {b}" for b in text.buffers]
    inputs += ["raw float64 partials"] if text.decays else []
    number = "float64" if text.wide == "double" else "float32"
    inputs += ["int64 n", *[f"{number} {x}" for x in text.numbers]]
    inputs += [f"float64 {d}" for d in text.decays]
    body = text.body.replace("&noted", "(double*)&noted").replace("&part", "(double*)&part")
    return General(
        ", ".join(inputs),
        "raw T out",
        f"using namespace gradhook;\n{body}".replace(
            "[&](long long i)", "[&](long long j)"
        ).replace("[i]", "[j]"),
        f"gradhook_gradient_{n}_{dtype}_any",
        target("cuda").replace("#pragma once", "") + source("accumulate") + source("gradient"),
    )


@functools.cache
def _general(n: int, dtype: str, forms: tuple[Form, ...], stores: bool) -> Any:
    return general_text(n, dtype, forms, stores).make()


def takes(array: Any) -> bool:
    """Whether `fused` does this array: a CuPy array of a real floating dtype."""
    return backend.is_cupy(array) and is_known(array)
