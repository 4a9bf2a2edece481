"""Public functions, Tensor methods, operators and in-place forms, generated from the op table's
`torch` signatures.

Each is an ordinary importable function; a hand-written one of the same name in overloads.py takes
its place.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import gradhook.ops.families  # noqa: F401 - fills the table
from gradhook import creation, dtypes, indexing, overloads
from gradhook.autograd import record
from gradhook.autograd.inplace import inplace
from gradhook.autograd.op_node import define
from gradhook.later import Later, LaterAttribute, Make, attributes
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


def put_operators(row: Op) -> None:
    """`__add__`, `__radd__`, `__iadd__` of an op whose row names an operator. The first is the op's
    recorder itself, so an operator costs one call.
    """
    kind = row.operator
    put_attribute(f"__{kind}__", lambda: record.operator_of(row.name))
    if kind in UNARY_OPERATORS or kind in COMPARISONS:
        return

    def reflected(self: Any, other: Any) -> Any:
        return record.operator_of(row.name)(other, self)

    def in_place_operator(self: Any, other: Any) -> Any:
        return inplace(row, self, other)

    reflected.__name__, in_place_operator.__name__ = f"__r{kind}__", f"__i{kind}__"
    setattr(TensorMethods, reflected.__name__, reflected)
    if row.inplace:
        setattr(TensorMethods, in_place_operator.__name__, in_place_operator)


class Forms:
    """The functions that a row stands for, each made when first asked for. path: its public name,
    namespace included; out: whether its function takes `out=`.
    """

    def __init__(self, row: Op) -> None:
        assert row.torch is not None
        self.row, self.path = row, row.torch.partition("(")[0]
        self.paths = (self.path, *row.aliases)
        self.out = any(map(has_out, self.paths))

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.row)

    @cached_property
    def method(self) -> Callable[..., Any]:
        """The method; the function too where that takes no out."""
        made = public(self.row, self.signature)
        if self.out:
            made.__qualname__ = f"Tensor.{made.__name__}"  # where pickle finds it
        return made

    @cached_property
    def function(self) -> Callable[..., Any]:
        return public(self.row, self.signature, out=True) if self.out else self.method

    @cached_property
    def in_place(self) -> Callable[..., Any]:
        return in_place(self.row, self.signature)

    def put(self) -> None:
        """Under all its names in the namespaces and on Tensor."""
        row, own = self.row, self.path.rpartition(".")[0]
        for path in self.paths:
            namespace, _, name = path.rpartition(".")
            _FUNCTIONS[namespace].put(name, lambda: self.function)
            if row.method and namespace == own:
                put_attribute(name, lambda: self.method)
            if row.inplace and not row.view and (path == self.path or not namespace):
                put_attribute(name + "_", lambda: self.in_place)


_FUNCTIONS: dict[str, Later] = defaultdict(Later)


def table_functions(namespace: str = "") -> Later:
    """The public functions of one namespace ("", "nn.functional", "special") by name, aliases
    included.
    """
    return _FUNCTIONS[namespace]


def put_attribute(name: str, make: Make) -> None:
    """A Tensor method that `make` returns when it is first asked for."""
    setattr(TensorMethods, name, LaterAttribute(TensorMethods, name, make))


def _generate() -> None:
    for row in TABLE.values():
        if row.torch is not None:
            Forms(row).put()
        if row.operator:
            put_operators(row)
    TensorMethods.__hash__ = object.__hash__  # type: ignore[method-assign]


def _written(name: str) -> Callable[..., Any]:
    return (with_out if has_out(name) else tensors_only)(getattr(overloads, name), name)


def _take_overloads() -> None:
    """Hand-written functions and methods replace the generated ones of their name."""
    functions = _FUNCTIONS[""]
    for module in (overloads, creation):
        sourced((name, getattr(module, name)) for name in module.__all__)
    for name in overloads.__all__:
        functions.put(name, partial(_written, name))
    for name in creation.__all__:
        function = getattr(creation, name)
        if name in CREATING:
            functions.put(name, partial(with_out, function, name, created))
        elif takes_tensors(function):
            functions.put(name, partial(tensors_only, function, name))
    for name, method in {**overloads.METHODS, **overloads.INPLACE}.items():
        put_attribute(name, partial(tensors_only, method, f"Tensor.{name}"))
    for name, getter in overloads.PROPERTIES.items():
        setattr(TensorMethods, name, property(getter))
    for name in overloads.FUNCTIONAL:
        if name in overloads.__all__:
            _FUNCTIONS["nn.functional"].put(name, partial(getattr, overloads, name))
    TensorMethods.__getitem__ = indexing.getitem  # type: ignore[attr-defined]
    TensorMethods.__setitem__ = indexing.setitem  # type: ignore[attr-defined]


_generate()
_take_overloads()
__getattr__, __dir__ = attributes(globals(), _FUNCTIONS[""])
__all__ = sorted(_FUNCTIONS[""])
