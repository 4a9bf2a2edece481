"""Symbols: what formulas and forwards run on to become the text of one kernel.

A symbol stands for one element. Each operation on it appends a line to its program, once for each
distinct expression; what is not done element by element cannot be said about one (`Untraceable`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from gradhook.kernels.registry import has_kernel
from gradhook.ops.table import TABLE

MOST_LINES = 64


class Untraceable(TypeError):
    """The function does more than compute each element from the ones at its place."""


class Program:
    """Lines of C++ over `F`, the type of an element."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}

    def symbol(self, text: str, is_bool: bool = False) -> Symbol:
        """The symbol of an expression."""
        name = self._names.get(text)
        if name is None:
            if len(self.lines) >= MOST_LINES:
                raise Untraceable(f"more than {MOST_LINES} operations")
            name = self._names[text] = f"t{len(self.lines)}"
            self.lines.append(f"const {'bool' if is_bool else 'F'} {name} = {text};")
        return Symbol(self, name, is_bool)


def _number(value: float) -> str:
    if math.isnan(value):
        return 'F(__builtin_nan(""))'
    if math.isinf(value):
        return f"F({'-' if value < 0 else ''}__builtin_inf())"
    return f"F({float(value)!r})"


class Symbol:
    """One element: a floating number, or a truth value."""

    __slots__ = ("is_bool", "name", "program")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, program: Program, name: str, is_bool: bool = False) -> None:
        self.program, self.name, self.is_bool = program, name, is_bool

    def text(self, other: Any) -> str:
        """Another operand as a floating number."""
        if isinstance(other, Symbol):
            return f"F({other.name})" if other.is_bool else other.name
        if type(other) in (int, float):
            return _number(other)
        raise Untraceable(f"an operand of {type(other).__name__}")

    def _infix(self, sign: str, other: Any, swap: bool = False, is_bool: bool = False) -> Symbol:
        a, b = self.text(self), self.text(other)
        return self.program.symbol(f"{b} {sign} {a}" if swap else f"{a} {sign} {b}", is_bool)

    def _logical(self, sign: str, other: Any) -> Symbol:
        if not (self.is_bool and isinstance(other, Symbol) and other.is_bool):
            raise Untraceable(f"{sign} of numbers")
        return self.program.symbol(f"{self.name} {sign}{sign} {other.name}", True)

    def __add__(self, other: Any) -> Symbol:
        return self._infix("+", other)

    def __radd__(self, other: Any) -> Symbol:
        return self._infix("+", other, True)

    def __sub__(self, other: Any) -> Symbol:
        return self._infix("-", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._infix("-", other, True)

    def __mul__(self, other: Any) -> Symbol:
        return self._infix("*", other)

    def __rmul__(self, other: Any) -> Symbol:
        return self._infix("*", other, True)

    def __truediv__(self, other: Any) -> Symbol:
        return self._infix("/", other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._infix("/", other, True)

    def __neg__(self) -> Symbol:
        return self.program.symbol(f"-{self.text(self)}")

    def __pow__(self, other: Any) -> Symbol:
        if type(other) not in (int, float) or other not in (1, 2, 3):
            raise Untraceable("a power")
        return self if other == 1 else self * self if other == 2 else self * self * self

    def __lt__(self, other: Any) -> Symbol:
        return self._infix("<", other, is_bool=True)

    def __le__(self, other: Any) -> Symbol:
        return self._infix("<=", other, is_bool=True)

    def __gt__(self, other: Any) -> Symbol:
        return self._infix(">", other, is_bool=True)

    def __ge__(self, other: Any) -> Symbol:
        return self._infix(">=", other, is_bool=True)

    def __eq__(self, other: Any) -> Symbol:  # type: ignore[override]
        return self._infix("==", other, is_bool=True)

    def __ne__(self, other: Any) -> Symbol:  # type: ignore[override]
        return self._infix("!=", other, is_bool=True)

    def __and__(self, other: Any) -> Symbol:
        return self._logical("&", other)

    def __or__(self, other: Any) -> Symbol:
        return self._logical("|", other)

    def __invert__(self) -> Symbol:
        if not self.is_bool:
            raise Untraceable("~ of a number")
        return self.program.symbol(f"!{self.name}", True)

    def __bool__(self) -> bool:
        raise Untraceable("a branch on a value")


def _larger(a: Symbol, b: Any) -> Symbol:
    x, y = a.text(a), a.text(b)
    return a.program.symbol(f"{x} > {y} || {x} != {x} ? {x} : {y}")


def _smaller(a: Symbol, b: Any) -> Symbol:
    x, y = a.text(a), a.text(b)
    return a.program.symbol(f"{x} < {y} || {x} != {x} ? {x} : {y}")


def _where(condition: Symbol, a: Any, b: Any) -> Symbol:
    if not isinstance(condition, Symbol) or not condition.is_bool:
        raise Untraceable("where without a condition")
    text = condition.text
    return condition.program.symbol(f"{condition.name} ? {text(a)} : {text(b)}")


def _call(function: str, x: Symbol) -> Symbol:
    return x.program.symbol(f"{function}({x.text(x)})")


PRIMITIVES: dict[str, Callable[..., Symbol]] = {
    **{n: partial(_call, n) for n in ("exp", "expm1", "log", "log1p", "tanh", "erf", "sqrt")},
    "abs": partial(_call, "fabs"),
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negative": lambda x: -x,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "maximum": _larger,
    "minimum": _smaller,
    "where": _where,
    "logical_or": lambda a, b: a | b,
    "logical_and": lambda a, b: a & b,
    "isnan": lambda x: x != x,
}


class SymbolNamespace:
    """`xp` over symbols: primitives, and the table's functions in terms of them, but for those that
    have a kernel of their own.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        row = TABLE.get(name)
        if row is None or row.view or row.n_outputs != 1 or has_kernel(name):
            raise Untraceable(f"xp.{name}")
        return partial(row.forward, self)


SYMBOLS = SymbolNamespace()


class Part(NamedTuple):
    """A function and what it is called with after `xp`: names in order, and names of keywords."""

    function: Callable[..., Any]
    given: tuple[str, ...]
    named: tuple[str, ...] = ()


def traced(
    parts: Sequence[Part], tensors: Sequence[str], options: dict[str, Any]
) -> tuple[list[str], list[str]] | None:
    """Lines over x0, x1, ..., and the name of each function's result; None where one is not element
    by element.

    tensors: the names that x0, x1, ... have among the parameters; options: the other parameters.
    """
    program = Program()
    symbols = {name: Symbol(program, f"x{k}") for k, name in enumerate(tensors)}
    values = {**options, **symbols}
    results = []
    try:
        for part in parts:
            given = [values[n] for n in part.given]
            found = part.function(SYMBOLS, *given, **{n: values[n] for n in part.named})
            if not isinstance(found, Symbol) or found.is_bool:
                return None
            results.append(found.name)
    except Exception:  # whatever a function does with what is no array
        return None
    return program.lines, results
