"""Large NumPy arrays through an op's forward, or through its formulas, in one pass: by a native
kernel that the same text gave on symbols (ops/symbols.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradhook.kernels.fused import fused_kernel, scalars_of
from gradhook.kernels.launch import NAMES
from gradhook.native import library
from gradhook.native.buffers import LARGE, empty, pooled
from gradhook.ops.symbols import Part, traced
from gradhook.ops.table import Formula, Op

MOST = 8  # kernels of one op for different attributes, as each is compiled


class Fused:
    """Functions of the table over arrays of one shape and dtype, or single numbers, together.

    tensors, options: the names of what a call gives, in order.
    """

    def __init__(
        self, parts: Sequence[Part], tensors: Sequence[str], options: Sequence[str]
    ) -> None:
        self.parts, self.tensors, self.options = parts, tensors, options
        self.kernels: dict[Any, Any] = {}
        self.useless = False  # not traced once: not tried again, with other options either
        self.programs: dict[Any, Any] = {}

    def __call__(self, arrays: Sequence[Any], options: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The results; None where the functions must be called themselves."""
        if self.useless or not library.takes(*arrays):
            return None
        found = scalars_of(arrays)
        if found is None:
            return None
        shape, bits = found
        dtype = arrays[0].dtype
        try:
            kernel = self.kernels[dtype.char, bits, options]
        except KeyError:
            kernel = self._made(dtype.char, bits, options)
        except TypeError:  # an option that is no key
            return None
        if kernel is None:
            return None
        outs = tuple([empty(shape, dtype) for _ in self.parts])
        kernel(*arrays, *outs, outs[0].size)
        return outs

    def _made(self, char: str, bits: int, options: tuple[Any, ...]) -> Any:
        program = self.programs.get(options)
        if program is None and len(self.programs) < MOST and library.is_available():
            named = dict(zip(self.options, options, strict=True))
            program = self.programs[options] = traced(self.parts, self.tensors, named) or ()
            self.useless = not program
        kernel = None
        if program:
            lines, results = program
            made = fused_kernel(lines, results, bits, len(self.tensors), NAMES[char])
            kernel = made.on_host if made.runs_on_host() else None
        self.kernels[char, bits, options] = kernel
        return kernel


def large_forward(row: Op) -> Callable[..., Any]:
    """The op's forward on NumPy arrays, large ones in one pass or in memory from the pool."""
    names = tuple(row.attributes)
    fused = Fused([Part(row.forward, row.inputs, names)], row.inputs, names)
    forward = row.forward
    single = row.n_outputs == 1 and not row.variadic and not row.composite

    def call(*arrays: Any, **attributes: Any) -> Any:
        first = arrays[0]
        if first.size < LARGE:
            return forward(np, *arrays, **attributes)
        if single and len(arrays) == len(row.inputs):
            options = tuple([attributes.get(n, row.attributes[n]) for n in names])
            found = fused(arrays, options)
            if found is not None:
                return found[0]
        return pooled(forward, np, *arrays, **attributes)

    return call


def large_backward(
    formulas: Sequence[Formula], tensors: Sequence[str], options: Sequence[str]
) -> Fused:
    """An op's formulas for one gradient, `g`, of large NumPy arrays."""
    parts = [Part(f.fn, tuple(f.parameters)) for f in formulas]
    return Fused(parts, ("g", *tensors), options)
