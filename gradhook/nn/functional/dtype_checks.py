"""Dtypes that functions of several ops refuse, in the words of a table op's `takes`."""

from __future__ import annotations

from gradhook.autograd.operands import refused_dtype
from gradhook.tensor import Tensor


def floating(name: str, input: Tensor) -> Tensor:
    """input. Raises NotImplementedError for integers, bool and complex numbers. name: the
    function's.
    """
    if input._a.dtype.kind in "biuc":
        raise NotImplementedError(refused_dtype(name, "f", input._a.dtype))
    return input


def inexact(name: str, input: Tensor) -> Tensor:
    """input. Raises NotImplementedError for integers and bool. name: the function's."""
    if input._a.dtype.kind in "biu":
        raise NotImplementedError(refused_dtype(name, "fc", input._a.dtype))
    return input


def real(name: str, *tensors: Tensor) -> None:
    """`floating` with the words and the RuntimeError that PyTorch has for some functions."""
    for t in tensors:
        if t._a.dtype.kind in "biuc":
            kind = "Complex" if t._a.dtype.kind == "c" else "Integral"
            raise RuntimeError(
                f"{name}: {kind} inputs not supported (found dtype {t.dtype.name}: convert with "
                ".to(dtype))"
            )
