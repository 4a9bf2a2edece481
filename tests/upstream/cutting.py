"""Cut the hook tests out of a big test file, by its syntax tree.

Of each test class the wanted tests and the helpers stay, and of the file the functions, classes
and values that these name. An import becomes `name = imported(module, name)` (helpers.py), so that
what gradhook lacks fails the tests that use it, and no other.
"""

from __future__ import annotations

import ast
import re

WANTED = re.compile(
    r"hook|retain|saved|post_accumulate|multi_grad|checkpoint|graph_task|will_engine|current_node"
    r"|grad_to_node|backward_to_node|gradient_edge|increment_version|callback",
    re.IGNORECASE,
)
EVERY = re.compile("")
HEAD = '"""Generated from PyTorch\'s tests by tests/upstream/cutting.py. Never commit it."""\n'
IMPORT = "from upstream.helpers import imported"

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign


def is_test(node: ast.AST) -> bool:
    """Whether a member of a class is a test."""
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def shortened(node: ast.ClassDef, wanted: re.Pattern[str]) -> bool:
    """Leave in a test class its helpers and its wanted tests; whether any test is left."""
    if not wanted.search(node.name):
        node.body = [x for x in node.body if not is_test(x) or wanted.search(x.name)]
    return any(is_test(x) for x in node.body)


def used(node: ast.AST) -> set[str]:
    """The names that a piece of code reads."""
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}


def imports(tree: ast.Module) -> dict[str, str]:
    """For each name that the file imports, the statement that replaces it."""
    found = {}
    inner = [x for node in tree.body if isinstance(node, ast.If) for x in node.body]
    for node in tree.body + inner:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name
                found[name] = f"{name} = imported({node.module!r}, {alias.name!r})"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                module = alias.name if alias.asname else name
                found[name] = f"{name} = imported({module!r})"
    return found


def definitions(tree: ast.Module) -> dict[str, Definition]:
    """The functions, helper classes and plain values of the file, by name."""
    found: dict[str, Definition] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


def cut(text: str, wanted: re.Pattern[str] = WANTED) -> str:
    """The text of a test file with nothing but the wanted tests and what they name."""
    tree = ast.parse(text)
    known, from_elsewhere = definitions(tree), imports(tree)
    classes = [x for x in tree.body if isinstance(x, ast.ClassDef) and x.name.startswith("Test")]
    kept: list[ast.stmt] = [x for x in classes if shortened(x, wanted)]
    names = {x.name for x in kept if isinstance(x, ast.ClassDef)}
    kept += [x for x in tree.body if instantiates(x, names)]
    open_names = set().union(*map(used, kept)) - names
    needed: set[str] = set()
    while open_names:
        name = open_names.pop()
        needed.add(name)
        if name in known and known[name] not in kept:
            kept.append(known[name])
            open_names |= used(known[name]) - needed
    lines = [from_elsewhere[name] for name in sorted(needed & set(from_elsewhere) - set(known))]
    body = [ast.unparse(x) for x in tree.body if x in kept]
    return "\n\n".join([HEAD + IMPORT, "\n".join(lines), *body]) + "\n"


def instantiates(node: ast.stmt, names: set[str]) -> bool:
    """Whether a statement of the file makes tests of a kept class: instantiate_...(TestX, ...)."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith("instantiate_")
        and bool(used(node) & names)
    )
