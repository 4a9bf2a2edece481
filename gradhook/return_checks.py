"""What a registered op's forward, kernels and formulas return, checked in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook import dtypes, memory
from gradhook.autograd.binding import Binding
from gradhook.backend import array_types
from gradhook.ops.table import Op

Function = Callable[..., Any]


def forward(name: str, function: Function, n_outputs: int) -> Function:
    """The forward with its results checked; the same signature, name and docstring."""

    def checked(xp: Any, *inputs: Any, **attributes: Any) -> Any:
        found = function(xp, *inputs, **attributes)
        if (
            type(found) is not np.ndarray  # most are: new memory of NumPy's, of a common dtype
            or found.base is not None
            or found.dtype.char not in _COMMON
            or any([found is x for x in inputs])
            or n_outputs != 1
        ):
            results(name, "forward", found, inputs, n_outputs)
        return found

    checked.__name__ = checked.__qualname__ = name
    checked.__module__ = function.__module__
    text = inspect.cleandoc(function.__doc__ or "")
    checked.__doc__ = text or f"{name}{inspect.signature(function)}, registered by register_op."
    checked.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return checked


_COMMON = "fdFDlq?"


def kernel(row: Op, function: Function) -> Function:
    """A forward's kernel: attributes become positional, in the forward's order; results checked."""

    def checked(*inputs: Any, **attributes: Any) -> Any:
        values = [attributes.get(n, default) for n, default in row.attributes.items()]
        found = function(*inputs, *values)
        if found is not NotImplemented:
            results(row.name, "kernel", found, inputs, row.n_outputs or 1)
        return found

    return checked


def results(name: str, what: str, found: Any, inputs: tuple[Any, ...], n_outputs: int) -> None:
    """Errors: TypeError for what is no array, or a wrong number of them; RuntimeError for an input,
    or a view of one.
    """
    several = n_outputs != 1
    known: Any = (*array_types(), np.generic)
    if several and not (isinstance(found, tuple | list) and len(found) == n_outputs):
        count = len(found) if isinstance(found, tuple | list) else type(found).__name__
        raise TypeError(
            f"the {what} of {name} returned {count}, expected a tuple of {n_outputs} arrays"
        )
    for k, out in enumerate(found if several else (found,)):
        which = f"the {what} of {name} returned" + (f", as output {k}," if several else "")
        if not isinstance(out, known):
            raise TypeError(
                f"{which} {type(out).__name__}, expected an array of xp; write it with xp's "
                "functions, and set n_outputs for several results"
            )
        dtypes.of(out.dtype)
        if any(type(x) is type(out) and memory.shares_memory(out, x) for x in inputs):
            raise RuntimeError(
                f"{which} an input or a view of one, expected memory of its own: a later write in "
                "place would change both unseen; return a copy, x.copy()"
            )


def formula(name: str, names: tuple[str, ...], function: Function) -> Function:
    """A formula of the inputs `names` with its results checked against their shapes, which are
    added to what it saves.
    """
    signature = inspect.signature(function)
    given = list(signature.parameters.values())
    shapes = [f"{n}_shape" for n in names]
    extra = [n for n in shapes if n not in signature.parameters]
    places = [[p.name for p in given[1:]].index(n) if n not in extra else
              len(given) - 1 + extra.index(n) for n in shapes]  # fmt: skip
    count = len(given) - 1

    def checked(xp: Any, *values: Any) -> Any:
        found = function(xp, *values[:count])
        expected = [values[p] for p in places]
        if len(names) == 1 and not (expected[0] and isinstance(expected[0][0], tuple)):
            gradient(name, names[0], found, expected[0])
            return found
        of = names if len(names) > 1 else [f"{names[0]}[{k}]" for k in range(len(expected[0]))]
        wanted = expected if len(names) > 1 else expected[0]
        if not isinstance(found, tuple | list) or len(found) != len(of):
            raise TypeError(
                f"the formula of {name} for {', '.join(of)} returned {type(found).__name__}, "
                f"expected a tuple of {len(of)} gradients"
            )
        for n, g, shape in zip(of, found, wanted, strict=True):
            gradient(name, n, g, shape)
        return found

    more = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in extra]
    checked.__signature__ = signature.replace(parameters=[*given, *more])  # type: ignore[attr-defined]
    return checked


def gradient(name: str, of: str, g: Any, shape: Any) -> None:
    """Errors: TypeError for what is no array; RuntimeError when g does not broadcast with `shape`,
    the input's (None: it was left out).
    """
    known: Any = (*array_types(), np.generic, Binding.tensor)
    if not isinstance(g, known):
        raise TypeError(
            f"the formula of {name} for {of} returned {type(g).__name__}, expected an array; write "
            "it with xp's functions"
        )
    if shape is None:
        return
    if not (_broadcasts(tuple(g.shape), shape) or _broadcasts(shape, tuple(g.shape))):
        raise RuntimeError(
            f"the formula of {name} for {of} returned a gradient of shape {tuple(g.shape)}, "
            f"expected {tuple(shape)}, the shape of {of}, or one that broadcasts with it"
        )


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    pairs = zip(small[::-1], large[::-1], strict=False)
    return len(small) <= len(large) and all(a in (1, b) for a, b in pairs)
