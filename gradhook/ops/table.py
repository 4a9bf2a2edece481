"""The op table: `@op` registers a primitive with its gradient formulas, `@composite` a function
over table ops.

A forward takes the array module `xp` (numpy or cupy), then its tensor inputs (positional; an
optional one defaults to None; a variadic one is `*tensors`), then attributes (keyword-only). A
formula's parameter names are its save list:
`g` (`g0`, `g1`, ... of several outputs), an input (`x`), `x_shape`, `out` (`out0`, ...), an
attribute, `needs`.
In a formula `xp` holds exactly the table's functions, on every carrier (see ops/namespace.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Forward = Callable[..., Any]

PROMOTIONS = ("none", "arith", "float", "same")


@dataclass(frozen=True, slots=True)
class Formula:
    """The gradient of the inputs `of`: `fn(xp, <parameters>)`. A joint one (several names) returns
    a tuple.
    """

    of: tuple[str, ...]
    fn: Forward
    parameters: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Op:
    """One row of the table.

    name: the Array API's (or table's) name, under which formulas reach it as `xp.<name>`.
    inputs, optional, variadic: the forward's tensor inputs. attributes: keyword-only ones with
    their defaults (`inspect.Parameter.empty` when required). formulas: input name -> Formula or
    None (never differentiable). joints: joint formulas beside them, for two or more inputs at once.
    n_outputs: 1, a number, or None when the call decides (split, unbind); differentiable: the
    outputs that have a gradient, None for all.
    view: the result shares (or may share) memory with the first input. linear: real-linear with
    real coefficients or explicit about complex numbers, so a complex gradient needs no conjugation
    round the formula.
    fresh: a composite's results are always newly allocated, and share nothing.
    promote: "none" (inputs as they are), "same" (dtypes must agree), "arith" (PyTorch's
    promotion), "float" (as arith, and integers become the default dtype).
    takes: the kinds of dtype (NumPy's b, i, u, f, c) that the first input may have once promoted,
    None for any.
    """

    name: str
    forward: Forward
    doc: str
    inputs: tuple[str, ...]
    optional: frozenset[str]
    variadic: bool
    attributes: dict[str, Any]
    formulas: dict[str, Formula | None] = field(default_factory=dict)
    joints: list[Formula] = field(default_factory=list)
    n_outputs: int | None = 1
    differentiable: tuple[int, ...] | None = None
    view: bool = False
    linear: bool = False
    promote: str = "none"
    takes: str | None = None
    composite: bool = False
    torch: str | None = None
    aliases: tuple[str, ...] = ()
    operator: str | None = None
    inplace: bool = False
    method: bool = True
    node: str | None = None
    fresh: bool = False

    @property
    def node_name(self) -> str:
        """PyTorch's name of the backward node, e.g. `MulBackward0`."""
        if self.node is not None:
            return self.node
        public = self.torch.partition("(")[0].rpartition(".")[2] if self.torch else self.name
        return "".join(part[:1].upper() + part[1:] for part in public.split("_")) + "Backward0"


TABLE: dict[str, Op] = {}
forgetting: list[Callable[[Op], Any]] = []


def remove(name: str) -> None:
    """Take a row out of the table: what was generated from it, or kept under its name, goes too.

    forgetting: called with the row; who keeps something of an op is in it.
    """
    row = TABLE.pop(name)
    for forget in forgetting:
        forget(row)


def op(
    *,
    torch: str | None = None,
    aliases: Sequence[str] = (),
    operator: str | None = None,
    inplace: bool = False,
    method: bool = True,
    promote: str = "none",
    takes: str | None = None,
    view: bool = False,
    linear: bool = False,
    n_outputs: int | None = 1,
    differentiable: Sequence[int] | None = None,
    node: str | None = None,
    joint: Mapping[tuple[str, ...], Forward] | None = None,
    **formulas: Forward | None,
) -> Callable[[Forward], Forward]:
    """Register the decorated forward as a primitive.

    torch: the public signature, `"sum(input, dim=None, keepdim=False, *, dtype=None)"`; parameters
    are matched to the forward's tensor inputs in order and to its attributes by name (dim is axis,
    keepdim is keepdims); `*shape` also takes one sequence. A dotted name (`nn.functional.relu`)
    places it there. method: also a Tensor method; inplace: also `<name>_`; operator: also
    `__<operator>__`, its reflected and in-place forms. joint: formulas of several inputs; where all
    of them have one besides (or stand in an earlier joint one), it is used where two or more of
    them need a gradient. takes: kinds of dtype, as Op says; another is a NotImplementedError.
    node: PyTorch's name of the backward node where it is not that of the function.
    Errors: TypeError at import when an input has neither a formula nor an explicit None, or a
    formula names something that is no input, output, attribute or shape.
    """

    def register(forward: Forward) -> Forward:
        row = _row(forward, torch, aliases, operator, inplace, method)
        if promote not in PROMOTIONS:
            raise TypeError(f"op {row.name!r}: promote={promote!r} is none of {PROMOTIONS}")
        row.promote, row.takes, row.view, row.linear = promote, takes, view, linear
        row.n_outputs, row.node = n_outputs, node
        row.differentiable = None if differentiable is None else tuple(differentiable)
        given: dict[tuple[str, ...], Forward | None] = {(k,): f for k, f in formulas.items()}
        for names, fn in {**given, **(joint or {})}.items():
            formula = None if fn is None else _formula(row, names, fn)
            if formula is not None and len(names) > 1 and set(names) <= set(row.formulas):
                row.joints.append(formula)
                continue
            for name in names:
                if name not in row.inputs:
                    raise TypeError(
                        f"op {row.name!r}: formula for {name!r}, which is no tensor input "
                        f"{row.inputs}"
                    )
                row.formulas[name] = formula
        missing = [n for n in row.inputs if n not in row.formulas]
        if missing:
            raise TypeError(
                f"op {row.name!r}: no formula for {missing}; give one, or None if it has no "
                f"gradient"
            )
        return _add(row, forward)

    return register


def composite(
    *,
    torch: str | None = None,
    aliases: Sequence[str] = (),
    operator: str | None = None,
    inplace: bool = False,
    method: bool = True,
    takes: str | None = None,
    fresh: bool = False,
) -> Callable[[Forward], Forward]:
    """Register a function written over table ops: its `xp` is the table's namespace, so its
    gradient is theirs. takes: kinds of dtype, as Op says. fresh: all it returns is memory of its
    own, on every path.
    """

    def register(forward: Forward) -> Forward:
        row = _row(forward, torch, aliases, operator, inplace, method)
        row.composite, row.takes, row.fresh = True, takes, fresh
        return _add(row, forward)

    return register


def parameters_of(function: Forward) -> tuple[str, ...]:
    """The names of a function's parameters. inspect.signature takes 20 times as long, and importing
    gradhook asks 300 formulas.
    """
    code: Any = None if hasattr(function, "__signature__") else getattr(function, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return tuple(inspect.signature(function).parameters)
    names: tuple[str, ...] = code.co_varnames
    return names[: code.co_argcount + code.co_kwonlyargcount]


def _described(forward: Forward) -> tuple[list[str], set[str], bool, dict[str, Any]]:
    """A forward's inputs, those that are optional, whether it is variadic, and its attributes with
    their defaults.
    """
    if hasattr(forward, "__signature__"):  # it wraps another, whose signature this is
        parameters = list(inspect.signature(forward).parameters.values())[1:]
        inputs = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        return (
            [p.name for p in inputs],
            {p.name for p in inputs if p.default is None},
            any(p.kind is p.VAR_POSITIONAL for p in inputs),
            {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY},
        )
    code: Any = forward.__code__
    names, n, m = code.co_varnames, code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    variadic = bool(code.co_flags & inspect.CO_VARARGS)
    defaults: tuple[Any, ...] = forward.__defaults__ or ()
    last = names[n - len(defaults) : n]
    given: dict[str, Any] = forward.__kwdefaults__ or {}
    return (
        [*names[1:n], *names[m : m + variadic]],
        {name for name, value in zip(last, defaults, strict=True) if value is None},
        variadic,
        {name: given.get(name, inspect.Parameter.empty) for name in names[n:m]},
    )


def _row(
    forward: Forward,
    torch: str | None,
    aliases: Sequence[str],
    operator: str | None,
    inplace: bool,
    method: bool,
) -> Op:
    inputs, optional, variadic, attributes = _described(forward)
    return Op(
        name=forward.__name__,
        forward=forward,
        doc=inspect.cleandoc(forward.__doc__ or ""),
        inputs=tuple(inputs),
        optional=frozenset(optional),
        variadic=variadic,
        attributes=attributes,
        torch=torch,
        aliases=tuple(aliases),
        operator=operator,
        inplace=inplace,
        method=method,
    )


def _formula(row: Op, names: tuple[str, ...], fn: Forward) -> Formula:
    parameters = parameters_of(fn)[1:]
    outputs = () if row.n_outputs is None else tuple(range(row.n_outputs))
    known = {"g", "out", "needs", *row.inputs, *row.attributes, *(f"{i}_shape" for i in row.inputs)}
    known |= {f"{v}{k}" for k in outputs for v in ("g", "out")}
    unknown = [p for p in parameters if p not in known]
    if unknown:
        raise TypeError(
            f"op {row.name!r}: the formula of {names} names {unknown}, expected some of "
            f"{sorted(known)}"
        )
    return Formula(names, fn, parameters)


def _add(row: Op, forward: Forward) -> Forward:
    if row.name in TABLE:
        raise TypeError(
            f"op {row.name!r} is in the table already ({TABLE[row.name].forward.__module__})"
        )
    if not row.doc:
        raise TypeError(f"op {row.name!r} has no docstring: say shapes, dtypes, errors, source")
    TABLE[row.name] = row
    return forward
