"""Native functions of kernels, called with NumPy arrays and scalars as they are.

An argument is handed over as the Python object: the pointer of an array and the value of a NumPy
scalar both lie right behind the object's head, which is looked at before anything is called
(`layout_is_known`). So a call costs a microsecond; Python's ints alone are converted.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook.hooks.notices import caller_depth
from gradhook.kernels.sources import header
from gradhook.native import buffers
from gradhook.native.errors import BuildError
from gradhook.native.threads import Count, get_num_threads

VARIABLE = "GRADHOOK_NATIVE"
HEAD: int = object.__basicsize__  # bytes of an object before what its type adds
SIZED_HEAD: int = tuple.__basicsize__  # the same of one with a size, as numpy.void is
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
Function = Callable[..., Any]


def takes(*arrays: Any) -> bool:
    """Whether these NumPy arrays are what native functions take: C-contiguous, aligned, float32 or
    float64 of this machine's byte order, all of one dtype.
    """
    dtype = arrays[0].dtype
    if dtype is not _FLOAT32 and dtype is not _FLOAT64:
        return False
    for a in arrays:
        if type(a) is not np.ndarray or a.dtype is not dtype:
            return False
        flags = a.flags
        if not flags.c_contiguous or not flags.aligned:
            return False
    return True


class Failed:
    """What ended the building of native code in this process: after one failure no more is tried,
    as the next would take as long to fail. What is built already, or lies in the cache, is used.
    """

    why = ""


@functools.cache
def why_not() -> str:
    """Why native kernels are not used; "" where they are."""
    if os.environ.get(VARIABLE, "1") == "0":
        return f"{VARIABLE}=0"
    if sys.platform != "linux":
        return f"{sys.platform}: Linux only"
    if not layout_is_known():
        return "objects of this Python do not lie in memory as expected"
    from gradhook.native import compiler

    if not compiler.command():
        return compiler.missing()
    try:
        runtime()
    except BuildError as error:
        return str(error)
    return ""


def is_available() -> bool:
    """Whether kernels run natively on NumPy arrays here."""
    return not why_not()


def status() -> str:
    """What native kernels are built with and run on, or why there are none, in one line."""
    if reason := why_not():
        return f"not used: {reason} (NumPy formulas instead)"
    from gradhook.native import cache, compiler

    folder, unusual = cache.place()
    kept = f"{folder}{f' (not kept: {unusual})' if unusual else ''}"
    words = " ".join([*compiler.command(), *compiler.flags()])
    failed = f"; no more are built: {Failed.why}" if Failed.why else ""
    return (
        f"{words}; cache {kept}; {get_num_threads()} threads; float64 exp, log, tanh and erf: "
        f"{compiler.vector_math()}{failed}"
    )


def layout_is_known() -> bool:
    """Whether an array's pointer and a NumPy scalar's value, or numpy.void's pointer, lie behind
    the head of the object.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    array, number = np.ones(3, np.float32), np.float32(1.5)
    record = np.arange(3).view("V24")[0]
    return bool(
        ctypes.c_void_p.from_address(id(array) + HEAD).value == array.ctypes.data
        and ctypes.c_float.from_address(id(number) + HEAD).value == 1.5
        and np.void.__basicsize__ == SIZED_HEAD + 40
        and ctypes.c_ssize_t.from_address(id(record) + HEAD).value == record.nbytes
        and ctypes.string_at(_pointer_at(record), record.nbytes) == record.tobytes()
    )


def _pointer_at(record: Any) -> int:
    return ctypes.c_void_p.from_address(id(record) + SIZED_HEAD).value or 0


def load(name: str, text: str) -> ctypes.CDLL:
    """The library of one C++ text, built when it was never before, or when it does not load.

    Errors: BuildError. The first is a RuntimeWarning, too, as nobody else says why all is slow.
    """
    from gradhook.native import cache

    try:
        path = cache.library(name, text, not Failed.why)
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            path.unlink()
            return ctypes.CDLL(str(cache.library(name, text, not Failed.why)))
    except (BuildError, OSError) as error:
        if not Failed.why:
            Failed.why = str(error)
            warnings.warn(
                f"gradhook: native CPU kernels are not built: {error}; NumPy formulas run instead "
                f"({VARIABLE}=0 silences this)",
                RuntimeWarning,
                stacklevel=caller_depth(),
            )
        raise BuildError(str(error)) from error


@functools.cache
def runtime() -> ctypes.CDLL:
    """The library that the others share: threads and buffers. Errors: BuildError."""
    found = load("runtime", header("threads_cpu.cpp") + header("buffers_cpu.cpp"))
    Count.apply = found.gradhook_set_threads
    found.gradhook_set_threads(get_num_threads())
    buffers.start(found)
    return found


_PARAMETER = re.compile(r"^(?:GRADHOOK_TABLE\s+|const\s+)?(.*?)\s*(\w+)$", re.S)


def parameters(body: str, name: str) -> list[tuple[str, str]]:
    """(type, name) of each parameter of a kernel's function."""
    start = body.index(f"void {name}(") + len(f"void {name}(")
    found, depth, part = [], 0, ""
    for letter in body[start:]:
        depth += (letter in "<(") - (letter in ">)")
        if depth < 0 or (letter == "," and not depth):
            match = _PARAMETER.match(part.strip())
            assert match is not None, part
            found.append((match[1], match[2]))
            part = ""
        else:
            part += letter
        if depth < 0:
            break
    return found


def caller(body: str, name: str) -> tuple[str, list[Any]]:
    """C++ text of a function that takes objects and calls the kernel, and its ctypes types."""
    declared: list[str] = []
    given: list[str] = []
    types: list[Any] = []
    for kind, _ in parameters(body, name):
        k = len(declared)
        if kind == "long long":
            declared.append(f"long long a{k}")
            given.append(f"a{k}")
            types.append(ctypes.c_longlong)
            continue
        declared.append(f"char* a{k}")
        types.append(ctypes.py_object)
        at = f"(a{k} + {HEAD})"
        if kind.endswith("*"):
            given.append(f"*reinterpret_cast<{kind.removesuffix('*')}**>({at})")
        elif kind[0].isupper() and kind not in ("T", "F"):  # a structure: bytes of numpy.void
            given.append(f"**reinterpret_cast<{kind}**>(a{k} + {SIZED_HEAD})")
        else:
            given.append(f"*reinterpret_cast<{kind}*>({at})")
    text = (
        f'\nextern "C" __global__ void call_{name}({", ".join(declared)}) {{\n'
        f"    {name}({', '.join(given)});\n}}\n"
    )
    return text, types


def unbuilt(*_: Any) -> Any:
    """In the place of a function that could not be built. Errors: BuildError, always."""
    raise BuildError(Failed.why)


def function(name: str, body: str, text: str) -> Function:
    """The native function of a kernel, built when it was never before; `unbuilt` where that fails,
    which is said once: who calls it falls back to NumPy (`kernels.registry`).

    body: the text of the kernel's function; text: all of its source.
    """
    calling, types = caller(body, name)
    try:
        library = load(name, text + calling)
    except BuildError:
        return unbuilt
    library.gradhook_use(runtime().gradhook_run)
    found = library[f"call_{name}"]
    found.argtypes, found.restype = types, None
    return found


def _buffers() -> Any:
    return buffers.Buffers.make if is_available() else None


buffers.Buffers.load = staticmethod(_buffers)
