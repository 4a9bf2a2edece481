"""What the tests of registered ops share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gradhook
from gradhook import custom_ops, register_op
from gradhook.kernels.registry import KERNELS
from gradhook.methods import TensorMethods
from gradhook.ops.table import TABLE

F64 = gradhook.float64


@contextmanager
def nothing_stays_registered() -> Iterator[None]:
    """Removes what was registered inside; then table, kernels and methods are as before."""
    before = set(TABLE), set(KERNELS), set(dir(TensorMethods))
    yield
    for name in list(custom_ops._registered):
        custom_ops.registered_op(name).remove()
    assert (set(TABLE), set(KERNELS), set(dir(TensorMethods))) == before


def leaf(values, dtype=F64):
    return gradhook.tensor(values, dtype=dtype, requires_grad=True)


def square(xp, x):
    """x times x. Result: shape and dtype of x."""
    return x * x


def square_op(**options):
    return register_op("my_square", square, {"x": lambda xp, g, x: 2 * g * x}, **options)
