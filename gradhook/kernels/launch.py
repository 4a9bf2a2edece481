"""Compiling and launching: RawModule functions with prepared arguments on hot paths, CuPy's
ElementwiseKernel for every other layout. Every launch and its bytes are counted here.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gradhook import backend, profiler
from gradhook.kernels.sources import source, target
from gradhook.native import buffers, library

# dtype name -> C++ type of an element, and the type sums are made in
C_TYPES = {
    "float16": ("float16", "float"),
    "bfloat16": ("bfloat16", "float"),
    "float32": ("float", "float"),
    "float64": ("double", "double"),
}
# The compile-time headers of CuPy that define float16 and bfloat16, and its own namesakes.
_HEADERS = "#include <cupy/carray.cuh>\n#include <cupy/float16.cuh>\n#include <cupy/bfloat16.cuh>\n"
_MOST_BLOCKS = 1 << 14
THREADS = 256


NAMES = {"e": "float16", "E": "bfloat16", "f": "float32", "d": "float64"}
KNOWN = "eEfd"  # dtype.char of what kernels take; E is bfloat16


def dtype_name(array: Any) -> str:
    """The name of a dtype of C_TYPES. NumPy takes 2 us for `dtype.name`."""
    return NAMES[array.dtype.char]


def is_known(array: Any) -> bool:
    """Whether kernels are written for the array's dtype."""
    return array.dtype.char in KNOWN


def is_here(*arrays: Any) -> bool:
    """Whether arrays are all on the current device. RawModule functions check nothing."""
    if len(backend.Process.devices) == 1 or type(arrays[0]) is np.ndarray:
        return True
    here = backend.cupy().cuda.runtime.getDevice()
    return all([a.device.id == here for a in arrays])


def is_contiguous(array: Any) -> bool:
    """Whether an array is C-contiguous. CuPy makes an object for `.flags`."""
    return bool(array.flags.c_contiguous if type(array) is np.ndarray else array._c_contiguous)


def is_on_host(array: Any) -> bool:
    """Whether kernels over this array run on the CPU: one thread works through many rows. NumPy's
    scalars are there, too, which arithmetic of 0-d arrays gives.
    """
    return type(array) is np.ndarray or isinstance(array, backend.NUMPY_TYPES)


def address(array: Any) -> int:
    """Where an array's elements lie."""
    if type(array) is np.ndarray:
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def fresh(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised C-contiguous array where `like` is."""
    kind = type(like)
    return buffers.empty(shape, dtype) if kind is np.ndarray else kind(shape, dtype)


def is_plain(*arrays: Any) -> bool:
    """Whether these arrays are what the functions of kernels take: C-contiguous real floating ones
    of one dtype, CuPy's on the current device.
    """
    if is_on_host(arrays[0]):
        return library.takes(*arrays)
    dtype = arrays[0].dtype
    if dtype.char not in KNOWN:
        return False
    for a in arrays:  # CuPy makes an object for `.flags`
        if not a._c_contiguous or (a.dtype is not dtype and a.dtype != dtype):
            return False
    return len(backend.Process.devices) == 1 or is_here(*arrays)


def sum_type(dtype: Any) -> type[np.floating[Any]]:
    """The NumPy scalar class of numbers handed to kernels of a dtype."""
    return np.float64 if dtype.itemsize == 8 else np.float32


NULL = np.uintp(0)


def as_argument(structure: np.ndarray[Any, Any]) -> Any:
    """An array of one structure as an argument by value: bytes, as CuPy asks NumPy for the fields
    of anything else, which takes 20 us.
    """
    return structure.view(f"V{structure.nbytes}")[0]


def pointer(array: Any) -> Any:
    """An argument that may be missing: the array, or a null pointer for None."""
    return NULL if array is None else array


def elements_grid(n: int) -> tuple[int]:
    """Blocks of THREADS threads for n elements."""
    return (min((n + THREADS - 1) // THREADS, _MOST_BLOCKS),)


class Kernel:
    """One function of device code, compiled on first use.

    files: kernel files it is written over; body: the text of `extern "C" __global__ void <name>`,
    with T and F for the element type and the type sums are made in.
    """

    __slots__ = ("_function", "_native", "body", "dtype", "files", "name")

    def __init__(self, name: str, files: tuple[str, ...], dtype: str, body: str) -> None:
        self.name, self.files, self.dtype, self.body = name, files, dtype, body
        self._function: Any = None
        self._native: Any = None

    def text(self, machine: str = "cuda") -> str:
        """The full text for a target, "cuda" or "cpu"."""
        element, wide = C_TYPES[self.dtype]
        if machine == "cpu":
            element = {"float16": "_Float16"}.get(element, element)
        parts = [_HEADERS if machine == "cuda" else "", target(machine), *map(source, self.files)]
        return (
            "\n".join(p.replace("#pragma once", "") for p in parts)
            + f"\nusing T = {element};\nusing F = {wide};\nusing namespace gradhook;\n{self.body}\n"
        )

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], nbytes: int
    ) -> None:
        """Launch, on NumPy arrays natively. args: arrays and NumPy scalars of exactly the declared
        types, as nothing checks them; nbytes: what it reads and writes.
        """
        if type(args[0]) is np.ndarray:
            return self.on_host(*args)
        function = self._function
        if function is None:
            module = backend.cupy().RawModule(code=self.text())
            function = self._function = module.get_function(self.name)
        function(grid, block, args)
        profiler.count_launch(self.name, nbytes)

    def on_host(self, *args: Any) -> None:
        """Call it natively, with NumPy arrays. BuildError, before anything is done, where it could
        not be built: registry.py and `runs_on_host` know.
        """
        native = self._native
        if native is None:
            native = self._build()
        native(*args)

    def runs_on_host(self) -> bool:
        """Whether it can be called with NumPy arrays: False where it could not be built."""
        native = self._native
        return (self._build() if native is None else native) is not library.unbuilt

    def _build(self) -> Any:
        self._native = library.function(self.name, self.body, self.text("cpu"))
        return self._native


class General(NamedTuple):
    """An ElementwiseKernel's text: the same expression for any strides."""

    inputs: str
    outputs: str
    operation: str
    name: str
    preamble: str

    def make(self) -> Any:
        """The ElementwiseKernel."""
        return backend.cupy().ElementwiseKernel(*self[:4], preamble=self.preamble)


class ElementKernel:
    """out = expression, element by element, over arrays of one dtype.

    expression: C++ over `x0`, `x1`, ... (of type F), the scalars' names and the element's index
    `i`. scalars: (C++ type, NumPy class, name) each.
    """

    def __init__(
        self, name: str, file: str, n: int, expression: str,
        scalars: tuple[tuple[str, Any, str], ...] = (),
    ) -> None:  # fmt: skip
        self.name, self.file, self.n = name, file, n
        self.expression, self.scalars = expression, scalars
        self.contiguous = functools.cache(self._contiguous)
        self.general = functools.cache(self._general)

    def kernel(self, dtype: str) -> Kernel:
        """The kernel of contiguous arrays."""
        pointers = "".join(f"const T* a{k}, " for k in range(self.n))
        numbers = "".join(f", {kind} {name}" for kind, _, name in self.scalars)
        loads = "".join(f"const F x{k} = static_cast<F>(a{k}[i]); " for k in range(self.n))
        name = f"gradhook_{self.name}_{dtype}"
        body = (
            f'extern "C" __global__ void {name}({pointers}T* out, long long n{numbers}) {{\n'
            f"    for_each_element(n, [&](long long i) {{\n"
            f"        {loads}\n        out[i] = static_cast<T>({self.expression}); }});\n}}"
        )
        return Kernel(name, (self.file,), dtype, body)

    _contiguous = kernel

    def general_text(self, dtype: str) -> General:
        """The kernel of any strides, as CuPy generates it."""
        wide = C_TYPES[dtype][1]
        inputs = [f"T a{k}" for k in range(self.n)]
        inputs += [f"{np.dtype(kind).name} {name}" for _, kind, name in self.scalars]
        loads = "".join(f"const {wide} x{k} = static_cast<{wide}>(a{k}); " for k in range(self.n))
        expression = self.expression.replace("F(", f"{wide}(").replace("<F>", f"<{wide}>")
        return General(
            ", ".join(inputs),
            "T out",
            f"using namespace gradhook; {loads} out = static_cast<T>({expression})",
            f"gradhook_{self.name}_{dtype}_any",
            target("cuda").replace("#pragma once", "") + source(self.file),
        )

    def _general(self, dtype: str) -> Any:
        return self.general_text(dtype).make()

    def of(self, *arrays: Any, numbers: tuple[Any, ...] = ()) -> Any:
        """The result for arrays of one shape and dtype, in a fresh array; NotImplemented for others
        and for a dtype that kernels don't take. numbers: of the declared types, or Python's int
        and float for 64-bit ones.
        """
        first = arrays[0]
        shape, dtype, n, plain = first.shape, first.dtype, first.size, True
        if dtype.char not in KNOWN or (is_on_host(first) and not library.takes(*arrays)):
            return NotImplemented
        for a in arrays:
            if a.shape != shape or (a.dtype is not dtype and a.dtype != dtype):
                return NotImplemented
            plain = plain and is_contiguous(a)
        out = fresh(first, shape, dtype)
        if not n:
            return out
        if not plain or not is_here(*arrays):
            return self(arrays, out, *numbers)
        kernel = self.contiguous(NAMES[dtype.char])
        nbytes = n * dtype.itemsize * (len(arrays) + 1)
        kernel(elements_grid(n), (THREADS,), (*arrays, out, n, *numbers), nbytes)
        return out

    def __call__(self, arrays: tuple[Any, ...], out: Any, *numbers: Any) -> Any:
        """Write to `out`, of the broadcast shape and the arrays' dtype; returns it."""
        given = [kind(n) for n, (_, kind, _) in zip(numbers, self.scalars, strict=True)]
        if not out.size:
            return out
        dtype = dtype_name(out)
        if is_plain(out, *arrays) and all([a.shape == out.shape for a in arrays]):
            n = out.size
            nbytes = (len(arrays) + 1) * out.nbytes
            args = (*arrays, out, n, *given)
            self.contiguous(dtype)(elements_grid(n), (THREADS,), args, nbytes)
            return out
        self.general(dtype)(*arrays, *given, out)
        profiler.count_launch(f"gradhook_{self.name}_{dtype}_any", (len(arrays) + 1) * out.nbytes)
        return out
