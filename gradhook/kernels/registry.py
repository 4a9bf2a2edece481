"""Which function of the op table has a hand-written kernel.

A kernel is an optimisation of a table op's forward, or of a formula (a composite): it takes the
same arguments but `xp`, only arrays of one module, and returns NotImplemented for what it does not
do. Those of KERNELS take CuPy arrays, and where they are registered as native NumPy arrays, too,
if this machine can build them (gradhook/native); those of HOST_KERNELS are NumPy calls in a better
order. The array module's namespace asks here; ops and the engine never do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook.native import library
from gradhook.native.errors import BuildError

Function = Callable[..., Any]

KERNELS: dict[str, Function] = {}
HOST_KERNELS: dict[str, Function] = {}
NATIVE: set[str] = set()  # names of KERNELS that take NumPy arrays


def kernel_for(name: str, native: bool = False) -> Callable[[Function], Function]:
    """Register the kernel of a table function on CuPy arrays; `native`: and on NumPy's. TypeError
    for a second one.
    """
    if native:
        NATIVE.add(name)
    return _registration(KERNELS, name)


def host_kernel_for(name: str) -> Callable[[Function], Function]:
    """Register NumPy calls that compute a table function in less time. TypeError for a second."""
    return _registration(HOST_KERNELS, name)


def has_kernel(name: str) -> bool:
    """Whether some array module has a kernel of this table function."""
    return name in KERNELS or name in HOST_KERNELS


def kernels_of(name: str, module: Any) -> list[Function]:
    """The kernels of a table function over arrays of a module, the one to try first first."""
    if module is not np:
        return [KERNELS[name]] if name in KERNELS else []
    native = name in NATIVE and library.is_available()
    return ([KERNELS[name]] if native else []) + (
        [HOST_KERNELS[name]] if name in HOST_KERNELS else []
    )


def _registration(kernels: dict[str, Function], name: str) -> Callable[[Function], Function]:
    def register(kernel: Function) -> Function:
        if name in kernels:
            raise TypeError(f"{name!r} has a kernel already: {kernels[name].__name__}")
        kernels[name] = kernel
        return kernel

    return register


def with_kernel(name: str, module: Any, fallback: Function) -> Function:
    """The table function over one array module: its kernels where there are some, else `fallback`.

    fallback: the forward bound to what it takes for `xp`.
    """
    for kernel in reversed(kernels_of(name, module)):
        fallback = _either(kernel, fallback)
    return fallback


def declines_unbuilt(kernel: Function) -> Function:
    """The kernel, giving NotImplemented where its native code could not be built. For kernels that
    change nothing before they run it.
    """

    @functools.wraps(kernel)
    def call(*args: Any, **attributes: Any) -> Any:
        try:
            return kernel(*args, **attributes)
        except BuildError:  # said once, by gradhook.native
            return NotImplemented

    return call


def _either(kernel: Function, fallback: Function) -> Function:
    def call(*args: Any, **attributes: Any) -> Any:
        try:
            out = kernel(*args, **attributes)
        except BuildError:
            out = NotImplemented
        return fallback(*args, **attributes) if out is NotImplemented else out

    return call
