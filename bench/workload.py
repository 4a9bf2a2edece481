"""What a row of the table is: a step and its values, its target and its floors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Work(NamedTuple):
    """step: does the work once. values: NumPy arrays that the last step computed, for the tests."""

    step: Callable[[], object]
    values: Callable[[], list[Array]]


class Row(NamedTuple):
    """build(lib, device="cpu"): the workload over gradhook or torch; raw(xp=numpy): the same
    arithmetic without autograd.

    target: the largest ratio gradhook / torch on the CPU that is good enough, None where none was
    set. copied: elements, float32, of the array whose copy is this row's floor; 0: no such floor.
    only_products: raw is a floor that has no values: the step's matrix products alone (no step that
    uses NumPy's BLAS is faster), or copies of its arrays. others: by name what makes another
    engine's step on the CPU, None where that is not installed.
    """

    name: str
    target: float | None
    build: Callable[..., Work]
    raw: Callable[..., Work]
    rounds: int = 25
    copied: int = 0
    only_products: bool = False
    others: Mapping[str, Callable[[], Callable[[], object] | None]] = MappingProxyType({})


def set_parameters(lib: Any, model: Any, arrays: list[Array]) -> None:
    """Give a model the same float32 parameters in every library."""
    with lib.no_grad():
        for parameter, array in zip(model.parameters(), arrays, strict=True):
            parameter.copy_(lib.from_numpy(array))
