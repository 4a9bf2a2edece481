"""N-ary accumulation: the gradients of one slot in one launch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradhook import backend, profiler
from gradhook.kernels.launch import (
    THREADS,
    General,
    Kernel,
    dtype_name,
    elements_grid,
    is_plain,
)
from gradhook.kernels.sources import source

ARRAYS_A_LAUNCH = 16  # bounds a launch's arguments: 4 KB on CUDA, up to 120 bytes an array


def accumulate(arrays: Sequence[Any], dtype: Any = None, out: Any = None) -> Any:
    """The sum of one or more arrays of one device, in a fresh array or in `out`.

    Without `dtype` all have one shape and dtype; with it, they broadcast and are cast to it.
    Added from left to right on every device. float16 and bfloat16 are summed in float32 and rounded
    once. Any strides; the result is an array also for 0-d. ValueError when shapes, dtypes or
    devices differ or when there is no array.
    """
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray and dtype is out is None:
        return arrays[0].copy()
    if len(arrays) == 2 and type(arrays[0]) is type(arrays[1]) is np.ndarray:
        a, b = arrays
        if a.shape and a.shape == b.shape and a.dtype is b.dtype and dtype is out is None:
            return a + b  # one rounding also for float16, in one NumPy call
    if arrays and dtype is out is None and not isinstance(arrays[0], backend.NUMPY_TYPES):
        total = _plain_sum(arrays)
        if total is not None:
            return total
    if not arrays:
        raise ValueError("accumulate: found no array, expected at least one")
    first = arrays[0]
    shape, wanted = first.shape, first.dtype if dtype is None else np.dtype(dtype)
    on_cuda = not isinstance(first, backend.NUMPY_TYPES) and backend.is_cupy(first)
    if dtype is not None:
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
    for array in arrays:
        fits = dtype is not None or (array.shape == shape and array.dtype == wanted)
        if not fits or (type(array) is not type(first) and backend.is_cupy(array) != on_cuda):
            raise ValueError(f"accumulate: found {_meta(array)}, expected {_meta(first)}")
    half = is_half(wanted)
    return (_sum_cupy if on_cuda else _sum_numpy)(arrays, shape, wanted, half, out)


def _plain_sum(arrays: Sequence[Any]) -> Any:
    """The sum of plain CuPy arrays of one shape (a copy of one) by one launch; None for others."""
    first, n = arrays[0], arrays[0].size
    kind, shape = type(first), first.shape
    if len(arrays) > ARRAYS_A_LAUNCH or not n:
        return None
    for a in arrays:
        if type(a) is not kind or a.shape != shape:
            return None
    if not is_plain(*arrays):
        return None
    out = kind(shape, first.dtype)
    kernel = contiguous(len(arrays), dtype_name(first))
    nbytes = n * first.itemsize * (len(arrays) + 1)
    kernel(elements_grid(n), (THREADS,), (*arrays, out, n), nbytes)
    return out


def is_half(dtype: Any) -> bool:
    """Whether sums of this dtype are made in float32: float16 and bfloat16."""
    return bool(dtype.char == "e" or (dtype.itemsize == 2 and dtype.name == "bfloat16"))


def _meta(array: Any) -> str:
    return f"shape {tuple(array.shape)}, {array.dtype} on {backend.device_of(array)}"


def _sum_numpy(
    arrays: Sequence[Any], shape: tuple[int, ...], dtype: Any, half: bool, out: Any
) -> Any:
    wide = np.dtype(np.float32) if half else dtype
    total = out if out is not None and not half else np.empty(shape, wide)
    if len(arrays) == 1:
        np.copyto(total, arrays[0], casting="unsafe")
    else:
        a, b = (x if x.dtype == wide else x.astype(wide) for x in arrays[:2])
        np.add(a, b, out=total)
    for array in arrays[2:]:
        np.add(total, array if array.dtype == wide else array.astype(wide), out=total)
    if not half:
        return total
    if out is None:
        return total.astype(dtype)
    out[...] = total
    return out


def _sum_cupy(
    arrays: Sequence[Any], shape: tuple[int, ...], dtype: Any, half: bool, out: Any
) -> Any:
    cupy = backend.cupy()
    total = arrays[0]
    if len(arrays) == 1 and total.shape == shape and total.dtype == dtype and out is None:
        return total.copy()
    rest = arrays[1:]
    for start in range(0, max(len(rest), 1), ARRAYS_A_LAUNCH):
        chunk = rest[start : start + ARRAYS_A_LAUNCH]
        last = start + len(chunk) == len(rest)
        kind = dtype if last or not half else np.dtype(np.float32)
        result = out if last and out is not None else cupy.ndarray(shape, kind)
        total = _launch(total, chunk, result, half)
    return total


def _launch(total: Any, chunk: Sequence[Any], out: Any, half: bool) -> Any:
    nbytes = out.nbytes + sum([a.nbytes for a in (total, *chunk)])
    if (
        is_plain(out, total, *chunk)
        and out.size
        and all([a.shape == out.shape for a in (total, *chunk)])
    ):
        n = out.size
        args = (total, *chunk, out, n)
        contiguous(len(chunk) + 1, dtype_name(out))(elements_grid(n), (THREADS,), args, nbytes)
        return out
    kernel = _general(len(chunk), half)
    if out.size:
        kernel(total, *chunk, out)
        profiler.count_launch(kernel.name, nbytes)
    return out


@functools.cache
def contiguous(n: int, dtype: str) -> Kernel:
    """The kernel that adds n contiguous arrays of one dtype."""
    name = f"gradhook_accumulate_{n}_{dtype}"
    inputs = "".join(f"const T* x{k}, " for k in range(n))
    values = ", ".join(f"x{k}[i]" for k in range(n))
    body = (
        f'extern "C" __global__ void {name}({inputs}T* out, long long n) {{\n'
        "    for_each_element(n, [&](long long i) {\n"
        f"        out[i] = static_cast<T>(gradhook::accumulate<F>({values})); }});\n}}"
    )
    return Kernel(name, ("accumulate",), dtype, body)


def general_text(n: int, half: bool) -> General:
    """ElementwiseKernel: total and n arrays of any real or complex types -> out."""
    letters = "ABCDEFGHIJKLMNPQ"  # CuPy takes one letter a type; O is the output's
    inputs = "".join(f", {letters[k]} x{k}" for k in range(n))
    values = "".join(f", {_cast(f'x{k}', half)}" for k in range(n))
    wide = "float" if half else "O"
    return General(
        f"T total{inputs}",
        "O out",
        f"out = static_cast<O>(gradhook::accumulate<{wide}>({_cast('total', half)}{values}))",
        f"gradhook_accumulate_{n + 1}{'_half' if half else ''}",
        source("accumulate"),
    )


def _cast(name: str, half: bool) -> str:
    return f"static_cast<{'float' if half else 'O'}>({name})"


@functools.cache
def _general(n: int, half: bool) -> Any:
    return general_text(n, half).make()
