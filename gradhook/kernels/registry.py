"""Which function of the op table has a hand-written kernel.

A kernel is an optimisation of a table op's forward, or of a formula (a composite): it takes the
same arguments but `xp`, only CuPy arrays, and returns NotImplemented for what it does not do. The
array module's namespace asks here; ops and the engine never do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]

KERNELS: dict[str, Function] = {}


def kernel_for(name: str) -> Callable[[Function], Function]:
    """Register the kernel of a table function. TypeError for a second one."""

    def register(kernel: Function) -> Function:
        if name in KERNELS:
            raise TypeError(f"{name!r} has a kernel already: {KERNELS[name].__name__}")
        KERNELS[name] = kernel
        return kernel

    return register


def with_kernel(name: str, module: Any, fallback: Function) -> Function:
    """The table function over one array module: its kernel where there is one, else `fallback`.

    fallback: the forward bound to what it takes for `xp`.
    """
    kernel = None if module is np else KERNELS.get(name)
    if kernel is None:
        return fallback

    def call(*args: Any, **attributes: Any) -> Any:
        out = kernel(*args, **attributes)
        return fallback(*args, **attributes) if out is NotImplemented else out

    return call
