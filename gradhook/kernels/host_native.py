"""Native functions that have no CUDA twin: texts of kernels/*_cpu.h."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradhook.kernels.launch import C_TYPES
from gradhook.kernels.sources import header, target
from gradhook.native import library


@functools.cache
def host_function(file: str, name: str, parameters: str, dtype: str, types: str = "") -> Any:
    """The native function `name` of a file, with these parameters, for one dtype. types: arguments
    of its template, where they are not deduced.
    """
    full = f"gradhook_{name}_{dtype}"
    given = ", ".join([found for _, found in library.parameters(f"void f({parameters})", "f")])
    body = f'extern "C" __global__ void {full}({parameters}) {{\n    {name}{types}({given});\n}}\n'
    text = (
        f"{target('cpu')}\n{header(file).replace('#pragma once', '')}\n"
        f"using T = {C_TYPES[dtype][0]};\nusing namespace gradhook;\n{body}"
    )
    return library.function(full, body, text)


def record(numbers: dict[str, int]) -> Any:
    """A structure of 64-bit numbers, as a native function takes it by value."""
    found = np.array(list(numbers.values()), np.int64)
    return found.view(f"V{found.nbytes}")[0]
