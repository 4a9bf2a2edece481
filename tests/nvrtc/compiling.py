"""Compiling device code with NVRTC for an architecture, as CuPy does; no driver is needed."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradhook.kernels.launch import General, Kernel

ARCHITECTURES = ("80", "90", "120")


class Usage(NamedTuple):
    """What ptxas says of one kernel. spills: bytes of spill stores and loads; stack: bytes."""

    kernel: str
    registers: int
    spills: int
    stack: int


def compiled(source: str, architecture: str) -> list[Usage]:
    """Compile a source for sm_<architecture>. Errors: CuPy's CompileException, with the log."""
    from cupy._core import core
    from cupy.cuda import compiler

    options = (
        *core.assemble_cupy_compiler_options(()),
        "-ftz=true",
        f"-arch=sm_{architecture}",
        "--device-as-default-execution-space",
        "--ptxas-options=-v",
    )
    program = compiler._NVRTCProgram(source, "kernel.cu", (), (), method="cubin")
    log = io.StringIO()
    program.compile(options, log)
    return list(usages(log.getvalue()))


def usages(log: str) -> Iterator[Usage]:
    """The kernels in a log of ptxas -v."""
    # "Compiling entry function" starts a kernel's lines; templates that stayed calls come between.
    for part in log.split("Compiling entry function '")[1:]:
        name = part[: part.index("'")]
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", part)]
        stack = [int(n) for n in re.findall(r"(\d+) bytes stack frame", part)]
        registers = re.search(r"Used (\d+) registers", part)
        assert registers and spills, f"no registers in the log: {part}"
        yield Usage(name, int(registers[1]), sum(spills), max(stack))


def together(kernels: list[Kernel]) -> str:
    """One source of many kernels of one dtype: their own texts, each with its shared head once."""
    files = tuple(dict.fromkeys(f for k in kernels for f in k.files))
    return Kernel("all", files, kernels[0].dtype, "\n".join(k.body for k in kernels)).text()


def elementwise(kernel: General, dtype: str, ndim: int = 3) -> str:
    """The full source that CuPy hands to NVRTC for an ElementwiseKernel of strided arrays."""
    import cupy
    from cupy._core import _carray, _kernel, _scalar, core

    made = cupy.ElementwiseKernel(*kernel[:4], preamble=kernel.preamble)
    given = [_dtype_of(p, dtype) for p in made.in_params]
    inputs, outputs, types = made._decide_params_type(tuple(given), (np.dtype(_numpy(dtype)),))
    infos: list[Any] = []

    for parameter, kind in zip(made.in_params + made.out_params, inputs + outputs, strict=True):
        if not parameter.raw and parameter in made.in_params and _is_scalar(parameter, kernel):
            infos.append(_kernel._ArgInfo(3, _scalar.CScalar, np.dtype(kind), 0, True, True))
        else:
            infos.append(_kernel._ArgInfo(1, cupy.ndarray, np.dtype(kind), ndim, False, True))
    infos.append(_kernel._ArgInfo(2, _carray.Indexer, None, ndim, True, True))
    body = _kernel._get_elementwise_kernel_code(
        tuple(infos), types, made.params, made.operation, made.name, made.preamble, **made.kwargs
    )
    return "".join(f"#include <{h}>\n" for h in core._cupy_header_list) + str(body)


def _is_scalar(parameter: Any, kernel: General) -> bool:
    """Numbers are the inputs declared with a type of their own, arrays those with a letter."""
    return any(
        words.split()[-1] == parameter.name and len(words.split()[0]) > 1
        for words in kernel.inputs.split(",")
    )


@functools.cache
def _numpy(dtype: str) -> Any:
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def _dtype_of(parameter: Any, dtype: str) -> Any:
    return np.dtype(parameter.dtype) if parameter.dtype is not None else _numpy(dtype)
