"""Formulas and forwards as expressions: what generated text inlines, and which gradients are FRESH.

A gradient is fresh when its formula statically allocates it, so that the engine may adopt the
buffer. Where the source cannot be read (a frozen program) nothing is inlined and nothing is fresh:
slower, never wrong.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
from typing import Any

from gradhook.autograd.carriers import Forwards
from gradhook.kernels.registry import has_kernel
from gradhook.ops.table import TABLE, Op, forgetting


@functools.cache
def formula_nodes(row: Op) -> dict[str, ast.expr]:
    """The expression of each formula of an op: input name (or "a,b" of a joint one) -> AST; {}
    without the source.

    A formula given as a `def` counts when its body is a docstring and one return.
    """
    forward = row.forward
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, ast.expr] = {}
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return {}
    for decorator in definition.decorator_list:
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            value = keyword.value
            if keyword.arg == "joint" and isinstance(value, ast.Dict):
                for key, formula in zip(value.keys, value.values, strict=True):
                    if isinstance(key, ast.Tuple) and isinstance(formula, ast.Lambda):
                        found[",".join(ast.literal_eval(key))] = formula.body
            elif keyword.arg and isinstance(value, ast.Lambda):
                found[keyword.arg] = value.body
            elif keyword.arg in row.inputs and isinstance(value, ast.Name):
                expression = _returned(getattr(inspect.getmodule(forward), value.id, None))
                if expression is not None:
                    found[keyword.arg] = expression
    return found


def _returned(function: Any, only: bool = False) -> ast.expr | None:
    """What a function returns; `only`: None unless that is all it does, but for a docstring."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    if (
        only
        and isinstance(body, ast.FunctionDef)
        and len(body.body) != 1 + (ast.get_docstring(body) is not None)
    ):
        return None
    if isinstance(body, ast.FunctionDef) and isinstance(body.body[-1], ast.Return):
        return body.body[-1].value
    return None


@functools.cache
def _is_fresh(row: Op, name: str) -> bool:
    expression = formula_nodes(row).get(name)
    return expression is not None and _allocates(expression)


def is_fresh(row: Op, of: tuple[str, ...]) -> bool:
    """Whether the formula of these inputs always allocates: arithmetic, or a table op that is no
    view.
    """
    return _is_fresh(row, ",".join(of))


def _allocates(e: ast.expr) -> bool:
    if isinstance(e, ast.BinOp | ast.Compare):
        return True
    if isinstance(e, ast.UnaryOp):
        return isinstance(e.op, ast.USub)
    if isinstance(e, ast.IfExp):
        return _allocates(e.body) and _allocates(e.orelse)
    if (
        isinstance(e, ast.Call)
        and isinstance(e.func, ast.Attribute)
        and isinstance(e.func.value, ast.Name)
    ):
        called = TABLE.get(e.func.attr) if e.func.value.id == "xp" else None
        return (
            called is not None
            and not called.view
            and (called.fresh or not called.composite)
            and called.name not in MAY_ALIAS
        )
    return False


MAY_ALIAS = frozenset({"cast", "conj", "real", "imag"})


@functools.cache
def _forward_node(row: Op) -> ast.expr | None:
    return _returned(row.forward, only=True)


def _inlined(expression: ast.expr | None, names: dict[str, str]) -> str | None:
    """The expression's text with its parameters renamed; None when it names anything else or binds
    names.
    """
    if expression is None:
        return None
    expression = ast.parse(ast.unparse(expression), mode="eval").body
    for node in ast.walk(expression):
        if isinstance(node, ast.Lambda | ast.comprehension | ast.NamedExpr | ast.Await | ast.Yield):
            return None
        if isinstance(node, ast.Name):
            if node.id in names:
                node.id = names[node.id]
            elif not hasattr(builtins, node.id):
                return None
    return ast.unparse(expression)


def formula_text(row: Op, name: str, names: dict[str, str]) -> str | None:
    """The formula of one input as text over `names`, None when it must be called."""
    return _inlined(formula_nodes(row).get(name), names)


class _Direct(ast.NodeTransformer):
    """`xp.f(x)` as `op_f(module, x)`: the forward itself, on a bare array's module; as
    `op_f[type(g)](x)` where some module has a kernel.
    """

    def __init__(self) -> None:
        self.ops: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        f = node.func
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == "xp":
            row = TABLE[f.attr]
            if has_kernel(row.name) and not row.composite:
                self.ops[f"op_{f.attr}"] = Forwards(row)
                kind = ast.Call(ast.Name("type"), [ast.Name("g")], [])
                node.func = ast.Subscript(ast.Name(f"op_{f.attr}"), kind)
            elif not row.composite:
                self.ops[f"op_{f.attr}"] = row.forward
                node.func = ast.Name(f"op_{f.attr}")
                node.args.insert(0, ast.Name("module"))
        return node


def direct_calls(text: str) -> tuple[str, dict[str, Any]]:
    """A formula's text with table functions called directly, and those functions by name."""
    direct = _Direct()
    return ast.unparse(direct.visit(ast.parse(text, mode="eval"))), direct.ops


def forward_text(row: Op, names: dict[str, str]) -> str | None:
    """The forward as text over `names`, None when it is more than one expression."""
    return None if row.variadic else _inlined(_forward_node(row), names)


def _forget(row: Op) -> None:
    for kept in (formula_nodes, _is_fresh, _forward_node):
        kept.cache_clear()


forgetting.append(_forget)
