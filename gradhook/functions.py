"""Public functions, Tensor methods, operators and in-place forms, generated from the op table's
`torch` signatures.

Each is an ordinary importable function; a hand-written one of the same name in overloads.py takes
its place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import gradhook.ops.families  # noqa: F401 - fills the table
from gradhook import creation, dtypes, indexing, overloads
from gradhook.autograd import record
from gradhook.autograd.inplace import inplace
from gradhook.autograd.op_node import deferred, define
from gradhook.methods import TensorMethods
from gradhook.ops.documentation import documented, sourced
from gradhook.ops.table import TABLE, Op
from gradhook.overloads.arguments import takes_tensors, tensors_only
from gradhook.overloads.out import CREATING, created, has_out, with_out, written

RENAMED = {"dim": "axis", "keepdim": "keepdims"}
UNARY_OPERATORS = ("neg", "abs", "invert", "pos")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Signature:
    """A parsed `torch` signature and how its parameters reach the op.

    header: its text for a `def`; defaults included. call: argument text for the recorder. lines:
    statements before. given: argument text for a call of the function itself; marked: whether a
    keyword-only argument may follow without a star.
    """

    def __init__(self, row: Op) -> None:
        assert row.torch is not None
        path, _, rest = row.torch.partition("(")
        self.namespace, _, self.name = path.rpartition(".")
        self.parameters = "(" + rest
        arguments = ast.parse(f"def {self.name}{self.parameters}: pass").body[0].args  # type: ignore[attr-defined]
        self.lines: list[str] = []
        tensors: list[str] = []
        attributes: list[str] = []
        names = [a.arg for a in arguments.posonlyargs + arguments.args]
        star = arguments.vararg.arg if arguments.vararg else None
        for name in names + ([star] if star else []) + [a.arg for a in arguments.kwonlyargs]:
            attribute = name if name in row.attributes else RENAMED.get(name, name)
            if attribute in row.attributes:
                attributes.append(f"{attribute}={'raw_dtype(dtype)' if name == 'dtype' else name}")
                if name == star:
                    self.lines.append(f"{name} = one_sequence({name})")
            else:
                tensors.append(f"*{name}" if name == star else name)
        if len([t for t in tensors if t[0] != "*"]) > len(row.inputs):
            raise TypeError(
                f"op {row.name!r}: its torch signature {row.torch!r} has parameters the forward "
                f"lacks"
            )
        given = [*names, *([f"*{star}"] if star else [])]
        self.given = ", ".join(given + [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs])
        self.marked = bool(star or arguments.kwonlyargs)
        self.first = tensors[0] if tensors else ""
        self.call = ", ".join(tensors + attributes)
        self.rest = ", ".join(tensors[1:] + attributes)


def one_sequence(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`f(2, 3)` and `f((2, 3))` alike."""
    if len(values) == 1 and isinstance(values[0], Sequence):
        return tuple(values[0])
    return values


_SCOPE: dict[str, Any] = {
    "R": record.ops,
    "inplace": inplace,
    "one_sequence": one_sequence,
    "raw_dtype": dtypes.raw,
    "written": written,
}


def _made(text: str, name: str, row: Op, module: str) -> Callable[..., Any]:
    scope = {**_SCOPE, "ROW": row}
    function: Callable[..., Any] = define(text, name, f"function {name}", scope)
    function.__doc__ = documented(row)
    function.__module__ = module
    return function


def public(row: Op, s: Signature, out: bool = False) -> Callable[..., Any]:
    """The public function of an op; out: with PyTorch's `out=`."""
    parameters, path = s.parameters, f"{s.namespace}.{s.name}".lstrip(".")
    if out:
        parameters = f"{parameters[:-1]}, {'' if s.marked else '*, '}out=None)"
    body = [f"def {s.name}{parameters}:"]
    if out:
        body.append("    if out is not None:")
        body.append(f"        return written({s.name}, {path!r}, out, {s.given})")
    body += [f"    {line}" for line in s.lines]
    body.append(f"    return R.{row.name}({s.call})")
    module = "gradhook" + (f".{s.namespace}" if s.namespace else "")
    return _made("\n".join(body) + "\n", s.name, row, module)


def in_place(row: Op, s: Signature) -> Callable[..., Any]:
    """The in-place method `<name>_` of an op."""
    name = s.name + "_"
    body = [f"def {name}{s.parameters}:", *(f"    {line}" for line in s.lines)]
    body.append(f"    return inplace(ROW, {s.first}{', ' + s.rest if s.rest else ''})")
    return _made("\n".join(body) + "\n", name, row, "gradhook")


def in_place_later(row: Op, s: Signature, function: Callable[..., Any]) -> Callable[..., Any]:
    """`in_place`, when it is first called. function: the public one, of the same parameters."""
    made: Callable[..., Any] = deferred(lambda: in_place(row, s), s.name + "_")
    made.__doc__, made.__module__ = function.__doc__, "gradhook"
    made.__wrapped__ = function  # type: ignore[attr-defined]
    return made


def operators(row: Op) -> dict[str, Callable[..., Any]]:
    """`__add__`, `__radd__`, `__iadd__` of an op whose row names an operator.

    They replace themselves by the recorder on first use, so an operator costs one call.
    """
    kind = row.operator
    found: dict[str, Callable[..., Any]] = {}

    def forward(*operands: Any) -> Any:
        recorder = record.operator_of(row.name)
        if getattr(TensorMethods, f"__{kind}__") is forward:
            setattr(TensorMethods, f"__{kind}__", recorder)
        return recorder(*operands)

    found[f"__{kind}__"] = forward
    if kind in UNARY_OPERATORS:
        return found
    if kind not in COMPARISONS:

        def reflected(self: Any, other: Any) -> Any:
            return record.operator_of(row.name)(other, self)

        found[f"__r{kind}__"] = reflected
    if kind not in COMPARISONS and row.inplace:

        def in_place_operator(self: Any, other: Any) -> Any:
            return inplace(row, self, other)

        found[f"__i{kind}__"] = in_place_operator
    return found


def table_functions(namespace: str = "") -> dict[str, Callable[..., Any]]:
    """The public functions of one namespace ("", "nn.functional", "special") by name, aliases
    included.
    """
    return dict(_FUNCTIONS.get(namespace, {}))


_FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {}


def _generate() -> None:
    for row in TABLE.values():
        if row.torch is not None:
            signature = Signature(row)
            paths = (f"{signature.namespace}.{signature.name}".lstrip("."), *row.aliases)
            function = public(row, signature)
            taking = function
            if any(map(has_out, paths)):
                taking = public(row, signature, out=True)
                function.__qualname__ = f"Tensor.{function.__name__}"  # where pickle finds it
            for path in paths:
                namespace, _, name = path.rpartition(".")
                _FUNCTIONS.setdefault(namespace, {})[name] = taking
                if row.method and namespace == signature.namespace:
                    setattr(TensorMethods, name, function)
            if row.inplace and not row.view:
                method = in_place_later(row, signature, function)
                for name in (signature.name, *(a for a in row.aliases if "." not in a)):
                    setattr(TensorMethods, name + "_", method)
        if row.operator:
            for name, method in operators(row).items():
                method.__name__ = name
                setattr(TensorMethods, name, method)
    TensorMethods.__hash__ = object.__hash__  # type: ignore[method-assign]


def _take_overloads() -> None:
    """Hand-written functions and methods replace the generated ones of their name."""
    for name in overloads.__all__:
        function = getattr(overloads, name)
        sourced([(name, function)])
        _FUNCTIONS[""][name] = (with_out if has_out(name) else tensors_only)(function, name)
    sourced((name, getattr(creation, name)) for name in creation.__all__)
    for name in creation.__all__:
        function = getattr(creation, name)
        if name in CREATING:
            _FUNCTIONS[""][name] = with_out(function, name, created)
        elif takes_tensors(function):
            _FUNCTIONS[""][name] = tensors_only(function, name)
    for name, method in {**overloads.METHODS, **overloads.INPLACE}.items():
        setattr(TensorMethods, name, tensors_only(method, f"Tensor.{name}"))
    for name, getter in overloads.PROPERTIES.items():
        setattr(TensorMethods, name, property(getter))
    for name in overloads.FUNCTIONAL:
        if name in overloads.__all__:
            _FUNCTIONS["nn.functional"][name] = getattr(overloads, name)
    TensorMethods.__getitem__ = indexing.getitem  # type: ignore[attr-defined]
    TensorMethods.__setitem__ = indexing.setitem  # type: ignore[attr-defined]


_generate()
_take_overloads()
globals().update(_FUNCTIONS[""])
__all__ = sorted(_FUNCTIONS[""])
