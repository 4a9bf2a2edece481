"""Rows of the op tests, a file a family: {table op: Case or a list of them}.

A row says with which arrays and attributes an op is checked. Its gradients are checked against
finite differences, its result against `reference`, which is NumPy, SciPy or a formula by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Case:
    """inputs: arrays (floating and complex ones get gradients, but for those in `constant`).

    complexes: also with an imaginary part added to the floating inputs. second: gradgradcheck too.
    before: what the inputs go through first where gradients are checked, e.g. made Hermitian.
    after: what of the result is looked at there, e.g. vectors' absolute values.
    adjoint: how well <vjp(g), t> and <g, jvp(t)> agree, relative.
    reference: the expected result from the same arrays and attributes, None: gradients only.
    """

    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    reference: Callable[..., Any] | None = None
    complexes: bool = False
    second: bool = True
    constant: tuple[int, ...] = ()
    tolerance: float = 1e-5
    adjoint: float = 1e-10
    before: Callable[..., Any] | None = None
    after: Callable[..., Any] | None = None


def case(*inputs: Any, ref: Callable[..., Any] | None = None, **options: Any) -> Case:
    """A Case. Options that it has as fields are those, all others are attributes of the op."""
    own = {k: options.pop(k) for k in tuple(options) if k in Case.__dataclass_fields__}
    return Case(inputs, attributes=options, reference=ref, **own)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def positive(*shape: int, seed: int = 1) -> np.ndarray:
    """Numbers between 0.5 and 2."""
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape)


def inside(*shape: int, seed: int = 2) -> np.ndarray:
    """Numbers between -0.8 and 0.8."""
    return np.random.default_rng(seed).uniform(-0.8, 0.8, shape)


def apart(*shape: int, seed: int = 3) -> np.ndarray:
    """Numbers at least 0.1 from each other, from 0 and from the integers, in random order."""
    n = int(np.prod(shape))
    steps = np.arange(n) - n // 2
    values = steps * 0.5 + 0.25 + 0.01 * (steps % 7)
    return np.random.default_rng(seed).permutation(values).reshape(shape)


def integers(*shape: int, low: int = 0, high: int = 5, seed: int = 4) -> np.ndarray:
    """int64 numbers in [low, high)."""
    return np.random.default_rng(seed).integers(low, high, shape)


def mask(*shape: int, seed: int = 5) -> np.ndarray:
    """bool, about half of them True."""
    return np.random.default_rng(seed).random(shape) > 0.5


def cases() -> dict[str, list[Case]]:
    """The rows of all families. ValueError for an op with rows in two of them."""
    found: dict[str, list[Case]] = {}
    for module in iter_modules(__path__):
        for name, row in import_module(f"{__name__}.{module.name}").ROWS.items():
            if name in found:
                raise ValueError(
                    f"op {name!r} has rows in two families, the second is {module.name}"
                )
            found[name] = list(row) if isinstance(row, list | tuple) else [row]
    return found


def parameters() -> list[Any]:
    """(op, row) of every row, for parametrize."""
    return [
        pytest.param(
            name,
            c,
            id=f"{name}-{k}" if k else name,
        )
        for name, rows in cases().items()
        for k, c in enumerate(rows)
    ]
