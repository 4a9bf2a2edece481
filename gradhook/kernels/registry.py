"""Which function of the op table has a hand-written kernel.

A kernel is an optimisation of a table op's forward, or of a formula (a composite): it takes the
same arguments but `xp`, only CuPy arrays (a host kernel: only NumPy arrays), and returns
NotImplemented for what it does not do. The array module's namespace asks here; ops and the engine
never do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]

KERNELS: dict[str, Function] = {}
HOST_KERNELS: dict[str, Function] = {}


def kernel_for(name: str) -> Callable[[Function], Function]:
    """Register the kernel of a table function on CuPy arrays. TypeError for a second one."""
    return _registration(KERNELS, name)


def host_kernel_for(name: str) -> Callable[[Function], Function]:
    """Register NumPy calls that compute a table function in less time. TypeError for a second."""
    return _registration(HOST_KERNELS, name)


def has_kernel(name: str) -> bool:
    """Whether some array module has a kernel of this table function."""
    return name in KERNELS or name in HOST_KERNELS


def kernels_of(module: Any) -> dict[str, Function]:
    """The kernels over arrays of a module, by table function."""
    return HOST_KERNELS if module is np else KERNELS


def _registration(kernels: dict[str, Function], name: str) -> Callable[[Function], Function]:
    def register(kernel: Function) -> Function:
        if name in kernels:
            raise TypeError(f"{name!r} has a kernel already: {kernels[name].__name__}")
        kernels[name] = kernel
        return kernel

    return register


def with_kernel(name: str, module: Any, fallback: Function) -> Function:
    """The table function over one array module: its kernel where there is one, else `fallback`.

    fallback: the forward bound to what it takes for `xp`.
    """
    kernel = kernels_of(module).get(name)
    if kernel is None:
        return fallback

    def call(*args: Any, **attributes: Any) -> Any:
        out = kernel(*args, **attributes)
        return fallback(*args, **attributes) if out is NotImplemented else out

    return call
