"""Tensor methods that make new tensors of the same dtype and device: new_tensor, new_zeros, ..."""

from __future__ import annotations

from typing import Any

from gradhook import creation
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS: tuple[str, ...] = ()
METHODS = tuple("new_tensor new_zeros new_ones new_empty new_full".split())
PROPERTIES: tuple[str, ...] = ()


def _options(self: Tensor, given: dict[str, Any]) -> dict[str, Any]:
    """dtype, device and requires_grad: those given, else those of self."""
    unknown = set(given) - {"dtype", "device", "requires_grad", "layout", "pin_memory"}
    if unknown:
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")
    dtype, device = given.get("dtype"), given.get("device")
    return {
        "dtype": self.dtype if dtype is None else dtype,
        "device": self.device if device is None else device,
        "requires_grad": given.get("requires_grad", False),
    }


def new_tensor(self: Tensor, data: Any, **options: Any) -> Tensor:
    """A tensor of data, of the dtype and device of self unless given."""
    return creation.tensor(data, **_options(self, options))


def new_zeros(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """Zeros of a shape, of the dtype and device of self unless given."""
    return creation.zeros(*_size(size, options), **_options(self, options))


def new_ones(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """Ones of a shape, of the dtype and device of self unless given."""
    return creation.ones(*_size(size, options), **_options(self, options))


def new_empty(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """Memory of a shape with any values, of the dtype and device of self unless given."""
    return creation.empty(*_size(size, options), **_options(self, options))


def new_full(self: Tensor, size: Any, fill_value: Any, **options: Any) -> Tensor:
    """One number in a shape, of the dtype and device of self unless given."""
    return creation.full(tuple(size), fill_value, **_options(self, options))


def _size(size: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    return (options.pop("size"),) if "size" in options else size
