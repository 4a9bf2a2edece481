"""Kernel modules: CUDA C text that CuPy would give to NVRTC is compiled by g++ instead.

Importing this module imports CuPy; cpudevice.start() does it. CPUDEVICE_CXXFLAGS adds options, such
as -fsanitize=address. A compiled kernel is kept in the cache folder under its content.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from cpudevice import native

# Quick to compile and still inlined: a test runs a kernel on few elements.
FLAGS = [
    *"-std=c++17 -O1 -g0 -w -fpermissive -fPIC -fno-var-tracking -ffp-contract=off".split(),
    *os.environ.get("CPUDEVICE_CXXFLAGS", "").split(),
]
PRELUDE = """#include <cuda_on_cpu.h>
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
"""
_BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
KERNEL = re.compile(rf"__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\s*\(")
TEMPLATE = re.compile(r"template\s*<[^;{}]*?>\s*__global__[^;{}]*?(\w+)\s*\(")
DYNAMIC = re.compile(r"extern\s+__shared__\s+((?:\w|\s|<|>|:|,)+?)\s+(\w+)\s*\[\s*\]\s*;")
BARRIER = re.compile(r"__sync|__shfl|__ballot|__any_sync|__all_sync")

compiled = 0  # kernels built by this process


@cache
def _includes() -> list[str]:
    from cupy._core import core

    theirs = [o for o in core.assemble_cupy_compiler_options(()) if o.startswith("-I")]
    return [f"-I{native.HERE / 'include'}", *theirs]


@cache
def _texts() -> str:
    """What all kernels include of ours: a part of their keys."""
    return "".join(p.read_text("utf-8") for p in sorted((native.HERE / "include").rglob("*.h")))


def _key(*parts: object) -> str:
    import cupy

    return native.key_of(
        *parts, FLAGS, native.compiler(), cupy.__version__, native.cuda_headers(), _texts()
    )


@cache
def _folder() -> Path:
    folder = native.cache_folder() / "kernels"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _atomically(target: Path, text: str, command: list[Any]) -> str | None:
    """Compile text into the target, which appears when it is whole; the compiler's words if not."""
    with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
        source, fresh = Path(scratch, "kernel.cpp"), Path(scratch, "out")
        source.write_text(text, "utf-8")
        done = subprocess.run([*command, source, "-o", fresh], capture_output=True, text=True)
        if done.returncode:
            return done.stderr
        os.replace(fresh, target)
    return None


@cache
def _prelude() -> Path:
    """The header that all kernels include, precompiled beside it."""
    header = _folder() / f"prelude-{_key(PRELUDE)}.h"
    precompiled = header.with_name(header.name + ".gch")
    if not precompiled.exists():
        header.write_text(PRELUDE, "utf-8")
        command = [native.CXX, *FLAGS, *_includes(), "-x", "c++-header"]
        if problem := _atomically(precompiled, PRELUDE, command):
            raise RuntimeError(f"the CPU test device's header does not compile:\n{problem}")
    return header


def host_text(source: str, name_expressions: Any) -> tuple[str, dict[str, str] | None]:
    """Host C++ for CUDA C text, and the symbols of the name expressions (None without any)."""
    text = DYNAMIC.sub(r"\1* \2 = (\1*)cpudevice::dynamic_shared;", source)
    barriers = "true" if BARRIER.search(source) else "false"
    names = {name: f"instance{i}" for i, name in enumerate(name_expressions or ())}
    entries = [f"CPUDEVICE_KERNEL({s}, ({e}), {barriers})" for e, s in names.items()]
    templates = set(TEMPLATE.findall(source))
    for kernel in dict.fromkeys(KERNEL.findall(source)):
        if kernel not in templates:
            entries.append(f"CPUDEVICE_KERNEL({kernel}, {kernel}, {barriers})")
    return "\n".join([text, *entries, ""]), names if name_expressions else None


def library(text: str, options: tuple[str, ...]) -> Path:
    """The compiled library of host text, from the cache or built now. CompileException, with the
    compiler's words, when it does not compile.
    """
    global compiled
    target = _folder() / f"{_key(text, options)}.so"
    if target.exists():
        return target
    command = [native.CXX, *FLAGS, "-shared", "-include", _prelude(), *_includes(), *options]
    if problem := _atomically(target, text, command):
        from cupy.cuda.compiler import CompileException

        raise CompileException(problem[:6000], text, str(target), options, native.CXX)
    compiled += 1
    return target


def _compile(
    source: str, options: tuple[str, ...] = (), *_: Any, name_expressions: Any = None, **__: Any
) -> Any:
    """Stands in for cupy.cuda.compiler._compile_module_with_cache."""
    from cupy.cuda import function

    text, names = host_text(source, name_expressions)
    defines = tuple(o for o in options if o.startswith("-D"))
    module = function.Module()
    module.load(library(text, defines).read_bytes())
    module._set_mapping(names)
    return module


def install() -> None:
    """Compile CuPy's kernels here from now on."""
    from cupy.cuda import compiler

    compiler._compile_module_with_cache = _compile
