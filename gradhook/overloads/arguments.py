"""What a public function says of an argument that must be a Tensor and is none.

The function runs as it is; only when an AttributeError or TypeError comes out of it are its
arguments looked at, so that a call that succeeds pays for one more Python call and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import FunctionType, TracebackType
from typing import Any

from gradhook.autograd.op_node import define
from gradhook.autograd.operands import no_tensor
from gradhook.tensor import Tensor

_INNER = ("gradhook", "numpy", "cupy", "scipy")
_LISTS = frozenset(["Sequence[Tensor]", "list[Tensor]"])
_SORTS = _LISTS | {"Tensor"}
_NUMBERS = {"float": (int, float), "int": (int,), "complex": (int, float, complex)}


class Forwarding:
    """The text of a function that hands its own arguments on to another, `F` of `scope`.

    header: its parameters, defaults included; call: F with them; named: them again, as a dict.
    """

    def __init__(self, function: Callable[..., Any], more: str = "") -> None:
        self.scope: dict[str, Any] = {"F": function}
        header, call, starred = [], [], False
        given = inspect.signature(function).parameters
        for k, p in enumerate(given.values()):
            star = "*" * (p.kind is p.VAR_POSITIONAL) + "**" * (p.kind is p.VAR_KEYWORD)
            if p.kind is p.KEYWORD_ONLY and not starred:
                header.append("*")
            starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
            default = ""
            if p.default is not p.empty:
                self.scope[f"D{k}"], default = p.default, f"=D{k}"
            header.append(f"{star}{p.name}{default}")
            call.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else f"{star}{p.name}")
        if more:
            last = [header.pop()] if header and header[-1].startswith("**") else []
            header += ([] if starred else ["*"]) + [more, *last]
        self.header, self.arguments = ", ".join(header), ", ".join(call)
        self.named = "{" + ", ".join(f"{name!r}: {name}" for name in given) + "}"
        self.takes = takes_tensors(function)

    def defined(self, name: str, title: str, before: Sequence[str] = (), first: int = 1) -> Any:
        """The function; before: lines that come first. first: the position of its first argument,
        0 for a method.
        """
        body = [*before, f"return F({self.arguments})"]
        if self.takes:
            self.scope["explain"] = explain
            body = [
                "try:",
                *(f"    {line}" for line in body),
                "except (AttributeError, TypeError) as error:",
                f"    explain(F, {name!r}, {first}, error, {self.named})",
                "    raise",
            ]
        text = "\n    ".join([f"def {name}({self.header}):", *body]) + "\n"
        return define(text, name, f"function {title}", self.scope)


def kinds_of(annotation: Any) -> tuple[str, ...]:
    """What an annotation allows: "Tensor | None" is ("Tensor", "None")."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return tuple(part.strip() for part in text.split("|"))


def takes_tensors(function: Callable[..., Any], method: bool = False) -> bool:
    """Whether a parameter, of a method one beside self, is annotated as a Tensor."""
    annotations = getattr(function, "__annotations__", {})
    if "__wrapped__" in vars(function) or "__signature__" in vars(function):
        given = inspect.signature(function).parameters
        annotations = {name: p.annotation for name, p in given.items()}
    own = {"return", function.__code__.co_varnames[0]} if method else {"return"}
    return any(_SORTS.intersection(kinds_of(a)) for n, a in annotations.items() if n not in own)


_UNWRITTEN = (lambda *args, **named: WRITE(*args, **named)).__code__  # type: ignore[name-defined] # noqa: F821


def deferred(write: Callable[[], Any], name: str) -> Any:
    """A function whose text `write` compiles at the first call: a module's own functions call each
    other by name, so they have to be there before they are asked for (else `later.py`).
    """

    def first(*args: Any, **named: Any) -> Any:
        whole = write()
        made.__globals__.update(whole.__globals__)
        made.__defaults__, made.__kwdefaults__ = whole.__defaults__, whole.__kwdefaults__
        made.__code__ = whole.__code__
        return made(*args, **named)

    made = FunctionType(_UNWRITTEN, {"WRITE": first, "__name__": "gradhook.generated"}, name)
    return made


@cache
def tensors_only(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """The function with a TypeError that names the argument that must be a Tensor and is none; one
    that takes no Tensors, as it is. path: its public one, "nn.functional.softmax", "Tensor.cross".
    """
    namespace, _, name = path.rpartition(".")
    method = namespace == "Tensor"
    if not takes_tensors(function, method):
        return function

    made: Callable[..., Any] = deferred(
        lambda: Forwarding(function).defined(name, path, first=1 - method), name
    )
    made.__doc__ = function.__doc__
    made.__annotations__ = function.__annotations__
    made.__module__ = "gradhook" + (f".{namespace}" if namespace and not method else "")
    made.__qualname__ = f"Tensor.{name}" if method else name
    made.__wrapped__ = function  # type: ignore[attr-defined]
    return made


def explain(
    function: Callable[..., Any], name: str, first: int, error: Exception,
    given: dict[str, Any],
) -> None:  # fmt: skip
    """Raise the TypeError for an error that comes from an argument that must be a Tensor and is
    none; return where there is no such argument, or the error is a caller's own or names an
    argument already.
    """
    if any(str(error).startswith(f"{name}(): argument {known!r} ") for known in given):
        return
    wrong = list(_wrong(function, first, given))
    source = getattr(error, "obj", None)
    for argument, position, value in wrong:
        if value is source:
            raise no_tensor(name, argument, position, value) from None
    if wrong and _inside(error.__traceback__):
        raise no_tensor(name, *wrong[0]) from None


def _wrong(
    function: Callable[..., Any], first: int, given: dict[str, Any]
) -> Iterator[tuple[str, int, Any]]:
    """Name, position and value of what is no Tensor where the annotation says Tensor."""
    parameters = inspect.signature(function).parameters.values()
    for position, p in enumerate(parameters, first):
        kinds, value, several = kinds_of(p.annotation), given[p.name], p.kind is p.VAR_POSITIONAL
        if not _SORTS.intersection(kinds) or (value is None and "None" in kinds):
            continue
        if any(isinstance(value, _NUMBERS.get(kind, ())) for kind in kinds):
            continue
        for k, one in enumerate(value if several else [value]):
            if _LISTS.intersection(kinds) and isinstance(one, list | tuple):
                for n, element in enumerate(one):
                    if not isinstance(element, Tensor):
                        yield f"{p.name}[{n}]", position + k, element
            elif "Tensor" in kinds and not isinstance(one, Tensor):
                yield p.name, position + k, one


def _inside(trace: TracebackType | None) -> bool:
    """Whether an error was raised by our code or an array library: not in a callback."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    module: str = trace.tb_frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in _INNER
