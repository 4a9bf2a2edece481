"""What CUDA's libraries do for CuPy (thrust, cuFFT, cuSOLVER, the random generator), through NumPy.

The functions work on device memory, which is host memory here, in the order of the current stream;
each counts as one launch.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from cpudevice import native


def _enqueue(work: Callable[[Any], None], name: str) -> None:
    import cupy

    native.table().enqueue(cupy.cuda.get_current_stream().ptr, work, None, name)


def _memory(pointer: int, shape: Any, dtype: Any) -> np.ndarray:
    """A NumPy view of device memory, C order."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, kind)
    held = (ctypes.c_byte * (count * kind.itemsize)).from_address(pointer)
    return np.frombuffer(held, kind).reshape(shape)


def _lacking(name: str) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        native.LOADED.cpudevice_note_missing(name.encode())
        raise NotImplementedError(f"the CPU test device has no {name}")

    return fail


# ---- thrust: CuPy calls these with pointers; the last axis is sorted, NaN last, stable


def sort(dtype: Any, data: int, keys: int, shape: Any) -> None:
    """Sort in place."""
    shape = tuple(shape)

    def work(_: Any) -> None:
        _memory(data, shape, dtype).sort(axis=-1, kind="stable")

    _enqueue(work, "thrust sort")


def argsort(dtype: Any, indices: int, data: int, keys: int, shape: Any) -> None:
    """Indices that sort, and the sorted data in place, as thrust's sort by key leaves it."""
    shape = tuple(shape)

    def work(_: Any) -> None:
        values = _memory(data, shape, dtype)
        order = np.argsort(values, axis=-1, kind="stable")
        _memory(indices, shape, np.intp)[...] = order
        values[...] = np.take_along_axis(values, order, axis=-1)

    _enqueue(work, "thrust argsort")


def lexsort(dtype: Any, indices: int, keys: int, k: int, n: int) -> None:
    """Indices that sort by the last of k keys, then by the one before it."""

    def work(_: Any) -> None:
        _memory(indices, (n,), np.intp)[...] = np.lexsort(_memory(keys, (k, n), dtype))

    _enqueue(work, "thrust lexsort")


# ---- cupy.linalg and cupy.fft

LINALG = "cholesky det eig eigh eigvals eigvalsh inv pinv qr slogdet solve svd".split()
FFT = "fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn".split()


def _like(array: Any) -> np.ndarray:
    """A host array of this shape and dtype whose matrices can be factorised, whatever values the
    other will have when it is computed."""
    if array.ndim < 2:
        return np.ones(array.shape, array.dtype)
    return np.broadcast_to(np.eye(*array.shape[-2:], dtype=array.dtype), array.shape)


def _through_numpy(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of NumPy's on device memory. NaN where NumPy raises LinAlgError: CuPy does not."""

    def call(*args: Any, **options: Any) -> Any:
        import cupy

        given = [cupy.ascontiguousarray(a) if isinstance(a, cupy.ndarray) else a for a in args]
        places = [
            (a.data.ptr, a.shape, a.dtype) if isinstance(a, cupy.ndarray) else None for a in given
        ]
        host = [_like(a) if p else a for a, p in zip(given, places, strict=True)]
        found = function(*host, **options)  # only its shapes and dtypes count
        several = isinstance(found, tuple)
        outs = [cupy.empty(f.shape, f.dtype) for f in (found if several else (found,))]
        targets = [(out.data.ptr, out.shape, out.dtype) for out in outs]

        def work(_: Any, keep: Any = given) -> None:
            values = [_memory(*p) if p else a for a, p in zip(keep, places, strict=True)]
            try:
                results = function(*values, **options)
            except np.linalg.LinAlgError:
                results = tuple([np.nan] * len(targets)) if several else np.nan
            for target, result in zip(targets, results if several else (results,), strict=True):
                _memory(*target)[...] = result

        _enqueue(work, name)
        return tuple(outs) if several else outs[0]

    return call


# ---- cupy.random.Generator


class Generator:
    """cupy.random.Generator with NumPy's numbers: seeded by its bit generator's first draw."""

    def __init__(self, bit_generator: Any) -> None:
        self.bit_generator = bit_generator
        self._numpy = np.random.default_rng(bit_generator)

    def _fill(self, name: str, size: Any, dtype: Any, draw: Callable[..., Any]) -> Any:
        import cupy

        out = cupy.empty(() if size is None else size, dtype)
        pointer, shape, kind = out.data.ptr, out.shape, out.dtype
        numbers = draw(shape)  # now: a copy of the generator's state comes after it, as on a GPU

        def work(_: Any) -> None:
            _memory(pointer, shape, kind)[...] = numbers

        _enqueue(work, f"random {name}")
        return out

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform in [0, 1)."""
        return self._fill("random", size, dtype, lambda s: self._numpy.random(s, dtype=dtype))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Normal with mean 0 and deviation 1."""
        draw = lambda s: self._numpy.standard_normal(s, dtype=dtype)  # noqa: E731
        return self._fill("normal", size, dtype, draw)

    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Any = None, dtype: Any = np.float64
    ) -> Any:
        """Uniform in [low, high)."""
        return self._fill("uniform", size, dtype, lambda s: self._numpy.uniform(low, high, s))

    def integers(
        self, low: int, high: Any = None, size: Any = None, dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:  # fmt: skip
        """Uniform integers in [low, high), or with the end."""
        draw = lambda s: self._numpy.integers(low, high, s, dtype, endpoint)  # noqa: E731
        return self._fill("integers", size, dtype, draw)

    def poisson(self, lam: Any = 1.0, size: Any = None, dtype: Any = np.int64) -> Any:
        """Poisson of these rates, an array of its own or one number."""
        import cupy

        rates = cupy.ascontiguousarray(cupy.asarray(lam))
        out = cupy.empty(rates.shape if size is None else size, dtype)
        place = rates.data.ptr, rates.shape, rates.dtype
        target = out.data.ptr, out.shape, out.dtype

        def work(_: Any, keep: Any = rates) -> None:
            _memory(*target)[...] = self._numpy.poisson(_memory(*place), target[1])

        _enqueue(work, "random poisson")
        return out

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _lacking(f"cupy.random.Generator.{name}")


def default_rng(seed: Any = None) -> Generator:
    """Stands in for cupy.random.default_rng."""
    return seed if isinstance(seed, Generator) else Generator(np.random.PCG64(seed))


# ---- cuSPARSE: enough to hold sparse matrices; what computes is missing


class Cusparse(types.ModuleType):
    """cupy_backends.cuda.libs.cusparse: descriptors are numbers, constants 0, functions missing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "createMatDescr" or name.startswith(("setMat", "destroyMat")):
            return lambda *_: 1
        return 0 if name.isupper() else _lacking(f"cusparse.{name}")


def install() -> None:
    """Put the stand-ins into CuPy, and failing functions in place of what is left."""
    import cupy
    import cupy.cuda.cub
    import cupy.cuda.thrust
    import cupy.random._generator_api as api

    for module in (cupy.cuda.thrust, cupy.cuda.cub):
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and callable(value) and not isinstance(value, type):
                setattr(module, name, _lacking(f"{module.__name__}.{name}"))
    for module, host, names in (
        (cupy.linalg, np.linalg, LINALG),
        (cupy.fft, np.fft, FFT),
    ):
        for name in names:
            if hasattr(module, name):
                stand_in = _through_numpy(getattr(host, name), f"{host.__name__[6:]}.{name}")
                setattr(module, name, stand_in)
    libs = importlib.import_module("cupy_backends.cuda.libs")
    sys.modules["cupy_backends.cuda.libs.cusparse"] = libs.cusparse = Cusparse("cusparse")
    for function in (sort, argsort, lexsort):
        setattr(cupy.cuda.thrust, function.__name__, function)
    api.Generator = cupy.random.Generator = Generator
    cupy.random.default_rng = default_rng
