"""Static rules of the op table, read from its source: formulas are one pure expression each."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from op_cases import cases

import gradhook.ops.families
from gradhook.ops.table import TABLE

OPS = Path(gradhook.ops.families.__file__).parent
BUILTINS = {"tuple", "len", "zip"}
EXPRESSIONS = (
    ast.Lambda, ast.Name, ast.Load, ast.Constant, ast.Call, ast.keyword, ast.Attribute, ast.Starred,
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Tuple, ast.GeneratorExp,
    ast.comprehension, ast.Store, ast.arguments, ast.arg, ast.operator, ast.unaryop, ast.cmpop,
    ast.Slice, ast.BoolOp, ast.boolop,
)  # fmt: skip


def decorated() -> list[tuple[str, ast.FunctionDef, ast.Call, ast.Module]]:
    found = []
    for path in sorted(OPS.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            for d in getattr(node, "decorator_list", []):
                if isinstance(d, ast.Call) and getattr(d.func, "id", "") == "op":
                    found.append((node.name, node, d, tree))
    return found


def formulas() -> list[pytest.param]:
    """(op, parameters, expression) of every formula, lambdas and `def <op>_vjp` alike."""
    found = []
    for name, _, call, tree in decorated():
        for k in call.keywords:
            values = k.value.values if isinstance(k.value, ast.Dict) else [k.value]
            for value in values:
                if isinstance(value, ast.Name):
                    value = next(n for n in tree.body if getattr(n, "name", None) == value.id)
                if isinstance(value, ast.Lambda | ast.FunctionDef):
                    found.append(pytest.param(name, value, id=f"{name}-{k.arg}"))
    return found


def expression(formula: ast.Lambda | ast.FunctionDef) -> ast.expr:
    if isinstance(formula, ast.Lambda):
        return formula.body
    body = [
        n
        for n in formula.body
        if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
    ]
    assert len(body) == 1 and isinstance(body[0], ast.Return), "a formula is one return"
    return body[0].value


def test_the_source_was_read():
    assert {name for name, *_ in decorated()} == {
        n for n, row in TABLE.items() if not row.composite
    }


def test_every_formula_of_the_table_was_read():
    read = Counter(p.values[0] for p in formulas())
    for name, row in TABLE.items():
        held = {id(f) for f in (*row.formulas.values(), *row.joints) if f is not None}
        assert read[name] == len(held), (
            f"{name}: {read[name]} formulas in the source, {len(held)} held"
        )


@pytest.mark.parametrize(("name", "formula"), formulas())
def test_a_formula_is_one_expression_of_table_functions_and_its_parameters(name, formula):
    body = expression(formula)
    known = {a.arg for a in formula.args.args}
    known |= {
        n.id for n in ast.walk(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    for node in ast.walk(body):
        assert isinstance(node, EXPRESSIONS), (
            f"{name}: {ast.unparse(node)} has no place in a formula"
        )
        if isinstance(node, ast.Name) and node.id not in known:
            assert node.id in BUILTINS, f"{name}: {node.id!r} is no parameter"
        if isinstance(node, ast.Attribute):
            assert getattr(node.value, "id", None) == "xp", f"{name}: {ast.unparse(node)}"
            assert node.attr in TABLE, f"{name}: the table has no {node.attr!r}"


@pytest.mark.parametrize(("name", "formula"), formulas())
def test_a_formula_branches_on_attributes_and_shapes_only(name, formula):
    row = TABLE[name]
    static = {*row.attributes, *(f"{i}_shape" for i in row.inputs), "needs", *BUILTINS}
    for node in ast.walk(expression(formula)):
        if isinstance(node, ast.IfExp):
            names = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
            assert names <= static, f"{name}: branches on {names - static}"


def composites() -> list[pytest.param]:
    """(function, its definition) of every function over table ops."""
    found = []
    for path in sorted(OPS.glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            for d in getattr(node, "decorator_list", []):
                if isinstance(d, ast.Call) and getattr(d.func, "id", "") == "composite":
                    found.append(pytest.param(node.name, node, id=node.name))
    return found


def called(node: ast.AST) -> set[str]:
    """The names N of every xp.N in a text."""
    return {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute) and getattr(n.value, "id", None) == "xp"
    }


def test_every_composite_was_read():
    assert {p.values[0] for p in composites()} == {n for n, row in TABLE.items() if row.composite}


@pytest.mark.parametrize(("name", "function"), composites())
def test_a_composite_uses_functions_of_the_table_alone(name, function):
    assert sorted(called(function) - set(TABLE)) == [], f"{name}: the table has no such function"


def test_a_helper_without_rows_is_reached_by_an_op_that_has_some():
    """So its gradients of all orders are checked there (tests/test_ops.py)."""
    uses: dict[str, set[str]] = {name: set() for name in TABLE}
    for name, node in [p.values for p in (*formulas(), *composites())]:
        uses[name] |= called(node) & set(TABLE)
    reached = set(cases())
    while more := {u for name in reached for u in uses[name]} - reached:
        reached |= more
    assert sorted(set(TABLE) - reached) == []


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_docstring_says_what_goes_in_and_what_comes_out(name):
    words = r"(?i)\b(result|shape|dtype|one number|input|indices|view|integer|bool|zeros)s?\b"
    assert re.search(words, TABLE[name].doc), (
        f"{name}: say shapes and dtypes, found {TABLE[name].doc!r}"
    )
