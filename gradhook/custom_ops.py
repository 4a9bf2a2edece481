"""register_op: an op of the user's own becomes a row of the op table, like every built-in op."""

from __future__ import annotations

import ast
import functools
import inspect
import keyword
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from gradhook import functions as public_functions
from gradhook import return_checks
from gradhook.autograd import record
from gradhook.autograd.binding import Binding
from gradhook.kernels.registry import KERNELS, kernel_for
from gradhook.methods import TensorMethods
from gradhook.ops import table
from gradhook.ops.table import TABLE, Op

Function = Callable[..., Any]
Gradients = Mapping[Any, Function | None]


class RegisteredOp:
    """A user's op: call it with tensors; `remove()` takes it out of the table again.

    As a context manager it is removed at the end of the block. Attributes: name, `__doc__`,
    `__signature__`. It pickles by its name, so the process that unpickles it registers the op, too.
    Graphs recorded before the removal can still run backward.
    """

    def __init__(self, row: Op) -> None:
        self.name = row.name
        self.__name__ = self.__qualname__ = row.name
        self.__doc__ = row.doc
        self._row = row
        signature = public_functions.Signature(row)
        self._function: Function = public_functions.public(row, signature)
        self.__signature__ = inspect.signature(self._function)
        self._rows: list[str] = [row.name]
        self._methods: list[str] = []

    def __call__(self, *args: Any, **attributes: Any) -> Any:
        return self._function(*args, **attributes)

    def is_registered(self) -> bool:
        """Whether this op is in the table."""
        return TABLE.get(self.name) is self._row

    def remove(self) -> None:
        """Take the op out of the table, and its methods off Tensor. A second call does nothing."""
        if not self.is_registered():
            return
        self._function = functools.partial(_gone, self.name)
        _registered.pop(self.name, None)
        for name in self._rows:
            table.remove(name)
            KERNELS.pop(name, None)
        for name in self._methods:
            delattr(TensorMethods, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.remove()

    def __reduce__(self) -> Any:
        return registered_op, (self.name,)

    def __repr__(self) -> str:
        return f"<op {self.name}{self.__signature__}{'' if self.is_registered() else ', removed'}>"


def _gone(name: str, *args: Any, **attributes: Any) -> Any:
    raise RuntimeError(f"the op {name!r} was removed from the op table; register_op() it again")


_registered: dict[str, RegisteredOp] = {}


def registered_op(name: str) -> RegisteredOp:
    """The op that register_op made under this name in this process.

    Errors: KeyError where there is none.
    """
    if name not in _registered:
        raise KeyError(
            f"no op {name!r} is registered in this process; call gradhook.register_op({name!r}, "
            "...) first, e.g. by importing the module that does"
        )
    return _registered[name]


def register_op(
    name: str,
    forward: Function | None = None,
    gradients: Gradients | None = None,
    *,
    kernel: Function | None = None,
    gradient_kernels: Mapping[str, Function] | None = None,
    method: bool = False,
    inplace: bool = False,
    promote: str = "none",
    linear: bool = False,
    n_outputs: int = 1,
    differentiable: tuple[int, ...] | None = None,
) -> Any:
    """Put an op of your own into the op table; returns it, a callable with `remove()`.

    forward: `forward(xp, x, y, *, limit=1.0)` over arrays; xp is numpy or cupy. Positional
    parameters are tensors (None as a default makes one optional, `*tensors` takes any number),
    keyword-only ones are attributes. It returns a new array, or a tuple of n_outputs of them.
    Without it register_op is a decorator of the forward.
    gradients: {input: formula}, None for an input without a gradient. A formula is
    `formula(xp, g, ...)`: its parameters' names say what is saved for it: `g` (`g0`, `g1` of
    several outputs), an input, `out` (`out0`), `x_shape`, an attribute. xp holds the table's
    functions, on arrays and on tensors alike, so the formula can itself be differentiated. A tuple
    of inputs as key has one formula that returns a gradient for each.
    kernel, gradient_kernels: {input: function}: used instead on CuPy arrays; called with what the
    forward or the formula takes after xp, in that order. A cupy.ElementwiseKernel, one of
    gradhook.cuda, or a function of yours that launches a RawKernel and returns a new array, or
    NotImplemented for what it doesn't take. Under create_graph the formula is used.
    method, inplace: also `Tensor.<name>`, `Tensor.<name>_`. promote: "none" (dtypes as they come),
    "same", "arith" (PyTorch's promotion) or "float" (and integers become floating). linear:
    complex gradients go through the formula as they are; else it is taken as holomorphic.
    differentiable: the outputs that have a gradient (None: all).

    Errors: ValueError when the name is taken or no name; TypeError for a wrong signature, an input
    without a formula, a formula that names something unknown. In a call: TypeError or RuntimeError
    naming op and input when a forward or formula returns no array, one of a wrong shape, or memory
    of its input. docs/custom_ops.md shows each. Source: torch.library.custom_op, this op table.
    """
    if forward is None:
        options = {k: v for k, v in locals().items() if k not in ("name", "forward", "gradients")}
        return lambda forward: register_op(name, forward, gradients, **options)
    _check_name(name, method, inplace)
    _check_signature(name, forward)
    added: list[str] = []
    try:
        row = _row(name, forward, dict(gradients or {}), dict(gradient_kernels or {}), added,
                   promote=promote, linear=linear, n_outputs=n_outputs,
                   differentiable=differentiable, method=method, inplace=inplace)  # fmt: skip
        if kernel is not None:
            kernel_for(name)(return_checks.kernel(row, kernel))
        getattr(record.ops, name)  # the recorder: what is wrong is said now
        made = RegisteredOp(row)
    except BaseException:
        for key in added:
            table.remove(key)
            KERNELS.pop(key, None)
        raise
    made._rows = added
    for wanted, suffix, make in (
        (method, "", public_functions.public),
        (inplace, "_", public_functions.in_place),
    ):
        if wanted:
            function = make(row, public_functions.Signature(row))
            function.__doc__ = row.doc  # the generated one names PyTorch as its source
            setattr(TensorMethods, name + suffix, function)
            made._methods.append(name + suffix)
    _registered[name] = made
    return made


def _row(
    name: str,
    forward: Function,
    gradients: dict[Any, Function | None],
    kernels: dict[Any, Function],
    added: list[str],
    **options: Any,
) -> Op:
    """The op's row and one of each gradient that has a kernel; `added` gets their names."""
    given: dict[tuple[str, ...], Function | None] = {}
    for key, formula in gradients.items():
        names = (key,) if isinstance(key, str) else tuple(key)
        if formula is not None:
            _check_formula(name, names, formula)
            formula = _formula(name, names, formula, kernels.pop(key, None), added)
        given[names] = formula
    if kernels:
        raise TypeError(
            f"register_op {name!r}: gradient_kernels for {list(kernels)}, which have no formula in "
            "gradients; a kernel is a faster form of a formula, so give that, too"
        )
    checked = return_checks.forward(name, forward, options["n_outputs"])
    joint: Any = dict(sorted(given.items(), key=lambda item: len(item[0])))
    table.op(torch=f"{name}{_public_signature(forward)}", joint=joint, **options)(checked)
    added.append(name)
    return TABLE[name]


def _formula(
    name: str, names: tuple[str, ...], formula: Function, kernel: Function | None, added: list[str]
) -> Function:
    """The formula as the table gets it: checked, and a row of its own where it has a kernel."""
    if kernel is None:
        return return_checks.formula(name, names, formula)
    inner = f"{name}_gradient_{'_'.join(names)}"

    def gradient(xp: Any, *given: Any) -> Any:
        return formula(xp, *given)

    gradient.__name__ = inner
    gradient.__doc__ = f"The gradient of {name} with respect to its input {', '.join(names)}."
    table.composite(method=False)(gradient)
    added.append(inner)
    kernel_for(inner)(kernel)
    row = TABLE[inner]

    def through_table(xp: Any, *given: Any) -> Any:
        if TABLE.get(inner) is row:
            return getattr(xp, inner)(*given)
        return formula(xp, *given)  # removed since: the formula is the definition

    through_table.__signature__ = inspect.signature(formula)  # type: ignore[attr-defined]
    return return_checks.formula(name, names, through_table)


def _check_name(name: str, method: bool, inplace: bool) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or (
        name.startswith("_")
    ):  # fmt: skip
        raise ValueError(
            f"register_op: found the name {name!r}, expected an identifier that does not start "
            "with an underscore, such as 'soft_clip'"
        )
    where = None
    if name in TABLE:
        where = f"the op table has one ({TABLE[name].forward.__module__})"
    elif name in public_functions.table_functions():
        where = f"gradhook.{name} is a function"
    for wanted, attribute in ((method, name), (inplace, name + "_")):
        if wanted and hasattr(Binding.tensor, attribute):
            where = where or f"Tensor.{attribute} is there"
    if where is not None:
        raise ValueError(
            f"register_op: the name {name!r} is taken: {where}; choose another, or remove() the op "
            "that you registered before"
        )


_TAKEN = frozenset({"g", "out", "needs", "xp"})


def _check_signature(name: str, forward: Function) -> None:
    found = inspect.signature(forward)
    parameters = list(found.parameters.values())
    problem = None
    if not parameters or parameters[0].name != "xp":
        problem = "its first parameter is not xp, the array module"
    for p in parameters[1:]:
        numbered = p.name.rstrip("0123456789")
        if p.kind is p.VAR_KEYWORD:
            problem = problem or f"it has **{p.name}; name each attribute"
        elif numbered in _TAKEN or p.name.endswith("_shape"):
            problem = problem or f"{p.name!r} has a meaning of its own in formulas; rename it"
        elif p.kind is not p.KEYWORD_ONLY and p.default not in (p.empty, None):
            problem = problem or (
                f"{p.name!r} has the default {p.default!r}; attributes stand after `*`, and a "
                "tensor is optional with None"
            )
        elif p.kind is p.KEYWORD_ONLY and p.default is not p.empty and not _is_literal(p.default):
            problem = problem or (
                f"the default of {p.name!r} is {p.default!r}, expected a literal; take None and "
                "put it in the body"
            )
    kinds = [p.kind for p in parameters[1:] if p.kind is not p.KEYWORD_ONLY]
    if not kinds:
        problem = problem or "it has no tensor input"
    elif inspect.Parameter.VAR_POSITIONAL in kinds and len(kinds) > 1:
        problem = problem or "a variadic input is the only one"
    if problem is not None:
        raise TypeError(
            f"register_op {name!r}: the forward's signature is {found}: {problem}; expected "
            "forward(xp, x, ..., *, attribute=...)"
        )


def _check_formula(name: str, names: tuple[str, ...], formula: Function) -> None:
    found = inspect.signature(formula)
    parameters = list(found.parameters.values())
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    if not parameters or parameters[0].name != "xp" or any(p.kind not in plain for p in parameters):
        raise TypeError(
            f"register_op {name!r}: the formula of {', '.join(names)} has the signature {found}, "
            "expected formula(xp, g, ...) whose parameters name what it needs: g, an input, out, "
            "x_shape, an attribute"
        )


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _public_signature(forward: Function) -> str:
    """The forward's signature without xp: the public function's."""
    found = inspect.signature(forward)
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=plain[1:], return_annotation=inspect.Signature.empty))
