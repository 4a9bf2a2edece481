"""Kernels of expressions that formulas gave: several results of one pass over NumPy arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from gradhook.kernels.launch import Kernel


def fused_kernel(
    lines: Sequence[str], results: Sequence[str], scalars: int, n: int, dtype: str
) -> Kernel:
    """The kernel of n inputs and these results. scalars: a bit for each input that is a number."""
    inputs = "".join(f"const T* a{k}, " for k in range(n))
    outs = "".join(f"T* out{k}, " for k in range(len(results)))
    single = [f"const F x{k} = static_cast<F>(*a{k});" for k in range(n) if scalars >> k & 1]
    loads = [f"const F x{k} = static_cast<F>(a{k}[i]);" for k in range(n) if not scalars >> k & 1]
    stores = [f"out{k}[i] = static_cast<T>({name});" for k, name in enumerate(results)]
    inside = "\n        ".join([*loads, *lines, *stores])
    digest = hashlib.sha256(repr((lines, results, scalars)).encode()).hexdigest()[:16]
    name = f"gradhook_fused_{digest}_{dtype}"
    text = (
        f'extern "C" __global__ void {name}({inputs}{outs}long long n) {{\n    '
        + "\n    ".join(single)
        + f"\n    for_each_element(n, [=](long long i) {{\n        {inside} }});\n}}"
    )
    return Kernel(name, (), dtype, text)


def scalars_of(arrays: Sequence[Any]) -> tuple[tuple[int, ...], int] | None:
    """The shape of the arrays that are no single number, and a bit for each that is; None where
    there are different shapes.
    """
    shape: tuple[int, ...] | None = None
    bits = 0
    for k, a in enumerate(arrays):
        if not a.shape:
            bits |= 1 << k
        elif shape is None:
            shape = a.shape
        elif a.shape != shape:
            return None
    return None if shape is None else (shape, bits)
