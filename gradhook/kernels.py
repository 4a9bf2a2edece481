"""Kernel sources, found in the checkout or the installed package, and what is built of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradhook import backend

_ARRAYS_A_LAUNCH = 16  # bounds a launch's arguments: 4 KB on CUDA, up to 120 bytes an array


@functools.cache
def where() -> Path | None:
    """The folder of the kernel sources; None when there is none.

    In a wheel gradhook/_kernels. In a checkout (editable install) kernels/ beside the package,
    believed only next to pyproject.toml: site-packages may hold another package of that name.
    """
    package = Path(__file__).resolve().parent
    installed, checkout = package / "_kernels", package.parent / "kernels"
    if any(installed.glob("*.cu")):
        return installed
    if (package.parent / "pyproject.toml").is_file() and any(checkout.glob("*.cu")):
        return checkout
    return None


def names() -> list[str]:
    """The names of all kernel files, sorted, without .cu."""
    folder = where()
    return [] if folder is None else sorted(path.stem for path in folder.glob("*.cu"))


@functools.cache
def source(name: str) -> str:
    """The text of one kernel file. FileNotFoundError, with the names there are, for another."""
    folder = where()
    if folder is None or name not in names():
        raise FileNotFoundError(
            f"kernel {name!r} not found in {folder or 'gradhook/_kernels or ../kernels'}; there "
            f"are {', '.join(names()) or 'no kernels: install gradhook again'}"
        )
    return (folder / f"{name}.cu").read_text(encoding="utf-8")


def status() -> str:
    """What is used, or why not, in one line."""
    if where() is None:
        return "none found (gradhook/_kernels, ../kernels): install gradhook again"
    found = f"{', '.join(names())} in {where()}"
    if backend.is_available():
        return f"{found}; used through CuPy"
    return f"{found}; not used: {backend.why_not()} (NumPy formulas instead)"


def accumulate(arrays: Sequence[Any]) -> Any:
    """The sum of one or more arrays of one shape, dtype and device, in a fresh array.

    Added from left to right on every device. float16 and bfloat16 are summed in float32 and rounded
    once. Any strides; the result is an array also for 0-d. ValueError when shapes, dtypes or
    devices differ or when there is no array.
    """
    if len(arrays) == 2 and type(arrays[0]) is type(arrays[1]) is np.ndarray:
        a, b = arrays
        if a.shape and a.shape == b.shape and a.dtype is b.dtype:
            return a + b  # one rounding also for float16, in one NumPy call
    if not arrays:
        raise ValueError("accumulate: found no array, expected at least one")
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    on_cuda = not isinstance(first, backend.NUMPY_TYPES) and backend.is_cupy(first)
    for array in arrays:
        if (
            array.shape != shape
            or array.dtype != dtype
            or (type(array) is not type(first) and backend.is_cupy(array) != on_cuda)
        ):
            raise ValueError(f"accumulate: found {_meta(array)}, expected {_meta(first)}")
    half = dtype.char == "e" or (dtype.itemsize == 2 and dtype.name == "bfloat16")
    return (_sum_cupy if on_cuda else _sum_numpy)(arrays, half)


def _meta(array: Any) -> str:
    return f"shape {tuple(array.shape)}, {array.dtype} on {backend.device_of(array)}"


def _sum_numpy(arrays: Sequence[Any], half: bool) -> Any:
    first = arrays[0]
    if len(arrays) == 1:
        return np.array(first)
    if half or not first.shape:  # of 0-d arrays a plain add makes a scalar
        total = np.empty(first.shape, np.float32 if half else first.dtype)
        np.add(first, arrays[1], out=total, dtype=total.dtype)
    else:
        total = np.add(first, arrays[1])
    for array in arrays[2:]:
        np.add(total, array, out=total)
    return total.astype(first.dtype) if half else total


def _sum_cupy(arrays: Sequence[Any], half: bool) -> Any:
    cupy = backend.cupy()
    total = arrays[0]
    if len(arrays) == 1:
        return total.copy()
    shape, dtype = total.shape, total.dtype
    for start in range(1, len(arrays), _ARRAYS_A_LAUNCH):
        chunk = arrays[start : start + _ARRAYS_A_LAUNCH]
        last = start + len(chunk) == len(arrays)
        out = cupy.ndarray(shape, np.float32 if half and not last else dtype)
        total = _cupy_kernel(len(chunk), half)(total, *chunk, out)
    return total


@functools.cache
def _cupy_kernel(n: int, half: bool) -> Any:
    """ElementwiseKernel: total (F), n arrays (T) -> out (O), with accumulate.cu as preamble."""
    inputs = ", ".join(f"x{i}" for i in range(n))
    return backend.cupy().ElementwiseKernel(
        "F total, " + ", ".join(f"T x{i}" for i in range(n)),
        "O out",
        f"out = static_cast<O>(gradhook::accumulate<{'float' if half else 'T'}>(total, {inputs}))",
        f"gradhook_accumulate_{n + 1}{'_half' if half else ''}",
        preamble=source("accumulate"),
    )
