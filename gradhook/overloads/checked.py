"""Functions of two inputs that PyTorch takes as Tensors only, wholly or in part: a number is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradhook.autograd.operands import no_tensor
from gradhook.ops.documentation import documented
from gradhook.ops.table import TABLE, Op
from gradhook.overloads.recorded import ops
from gradhook.tensor import Tensor

FIRST = tuple(
    """
    eq ne not_equal lt less le less_equal gt greater ge greater_equal clamp_min clamp_max fmod
    copysign
""".split()
)
BOTH = tuple(
    """
    maximum minimum fmax fmin logical_and logical_or logical_xor logaddexp logaddexp2 atan2 arctan2
    hypot heaviside nextafter gcd lcm complex polar
""".split()
)
ONE = tuple(
    """
    remainder bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift xlogy
""".split()
)

RENAMED: dict[str, str] = {}
FUNCTIONS = (*FIRST, *BOTH, *ONE, "isclose")
METHODS = tuple(n for n in FUNCTIONS if n not in ("complex", "polar"))
PROPERTIES: tuple[str, ...] = ()


def refuse(name: str, argument: str, position: int, found: Any) -> None:
    """Raise TypeError for an argument that must be a Tensor and is none."""
    if not isinstance(found, Tensor):
        raise no_tensor(name, argument, position, found)


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|, elementwise. Result: broadcast shape, bool.

    Errors: TypeError for numbers, RuntimeError for dtypes that differ and negative tolerances.
    """
    refuse("isclose", "input", 1, input)
    refuse("isclose", "other", 2, other)
    return ops.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _function(name: str, row: Op) -> Callable[..., Tensor]:
    assert row.torch is not None
    first, second = row.torch.partition("(")[2].rstrip(")").replace(" ", "").split(",")

    def checked(*args: Any, **named: Any) -> Tensor:
        if named or len(args) != 2:
            args = _matched(name, (first, second), args, named)
        x, y = args
        if not isinstance(x, Tensor) and (name not in ONE or not isinstance(y, Tensor)):
            refuse(name, first, 1, x)
        if name in BOTH:
            refuse(name, second, 2, y)
        found: Tensor = getattr(ops, row.name)(x, y)
        return found

    checked.__name__ = checked.__qualname__ = name
    checked.__doc__ = documented(row)
    return checked


def _matched(
    name: str, names: tuple[str, str], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """The two arguments in order, however they were given. Errors: TypeError for others."""
    inputs = {**dict(zip(names, args, strict=False)), **named}
    if len(args) + len(named) != 2 or set(inputs) != set(names):
        raise TypeError(f"{name}(): expected the arguments {names[0]} and {names[1]}")
    return inputs[names[0]], inputs[names[1]]


for _row in TABLE.values():
    if _row.torch is not None:
        for _name in (_row.torch.partition("(")[0], *_row.aliases):
            if _name in FUNCTIONS and _name != "isclose":
                globals()[_name] = _function(_name, _row)
