"""CUDA kernels of the user's own, in CuPy's forms, compiled when they are first called: a program
that writes them imports on a machine without CuPy. Each launch is counted by the profiler.
"""

from __future__ import annotations

from typing import Any

from gradhook import backend, profiler


class ElementwiseKernel:
    """cupy.ElementwiseKernel of the same arguments, made on the first call.

    in_params, out_params: "T x, float32 limit" and "T y"; operation: CUDA C++ for one element.
    Calling it broadcasts CuPy arrays of any strides and returns a new array (a tuple of several).
    Errors: DeviceError on a call where there is no CUDA. Source: cupy.ElementwiseKernel.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        **options: Any,
    ) -> None:
        self.name = name
        self._given = (in_params, out_params, operation, name)
        self._options = options
        self._kernel: Any = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._kernel is None:
            self._kernel = backend.cupy().ElementwiseKernel(*self._given, **self._options)
        out = self._kernel(*args, **options)
        outs = out if isinstance(out, tuple) else (out,)
        profiler.count_launch(self.name, _nbytes((*args, *outs)))
        return out

    def __repr__(self) -> str:
        return f"ElementwiseKernel({self.name!r})"


class RawKernel:
    """cupy.RawKernel of the same arguments, made on the first launch.

    code: CUDA C++ with an `extern "C" __global__` function called `name`. A launch is
    `kernel(grid, block, args)`: blocks and threads as tuples; args are C-contiguous CuPy arrays and
    numbers. CuPy passes int as long long and float as double: give np.int32(n), np.float32(x) where
    the code says int and float, as nothing checks them. An empty grid launches nothing.
    Errors: DeviceError where there is no CUDA; ValueError for an array that is not C-contiguous,
    as the code sees a pointer only. Source: cupy.RawKernel.
    """

    def __init__(self, code: str, name: str, options: tuple[str, ...] = (), **more: Any) -> None:
        self.name = name
        self._given = (code, name, tuple(options))
        self._options = more
        self._kernel: Any = None

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], **more: Any
    ) -> None:
        if self._kernel is None:
            self._kernel = backend.cupy().RawKernel(*self._given, **self._options)
        for k, a in enumerate(args):
            if backend.is_cupy(a) and not a.flags.c_contiguous:
                raise ValueError(
                    f"RawKernel {self.name!r}: argument {k} is an array of shape {a.shape} and "
                    f"strides {a.strides}, expected a C-contiguous one, as the code sees only its "
                    "address; pass cupy.ascontiguousarray(array)"
                )
        if 0 in grid:
            return
        self._kernel(grid, block, args, **more)
        profiler.count_launch(self.name, _nbytes(args))

    def __repr__(self) -> str:
        return f"RawKernel({self.name!r})"


def _nbytes(args: Any) -> int:
    return sum(a.nbytes for a in args if backend.is_cupy(a))
