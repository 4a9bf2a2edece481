"""The arrows of DESIGN.md section 6: a file imports from its own layer and layers below only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gradhook"

# Of gradhook/autograd: what the Tensor is built on, and what is built on the Tensor.
ENGINE = """api binding carriers compiled completion engine
    fields fusion graph graph_task guard hook_notes
    hooked_views host_hooks inplace introspection module_hook_node module_hook_options
    module_hook_runners multi_grad multithreading mutation node_hooks node_streams
    numbering op_node operands record recorder_scope save_on_cpu saved saved_hooks
    saved_tensor source variable views watch""".split()
ABOVE_TENSOR = (
    "anomaly forward function function_checks functional functional_checks gradcheck".split()
)

# Lowest first. Patterns of module names without "gradhook."; the first that matches counts, and
# "gradhook" is the root __init__. A new module finds its place here, or the test fails.
LAYERS: list[tuple[str, list[str]]] = [
    (
        "foundations",
        "devices dtypes backend later libraries memory modes size hooks hooks.*".split(),
    ),
    ("state", ["storage", "profiler", "streams", "kernels.sources"]),
    ("native", ["native", "native.*", "cpu"]),
    ("kernels", ["kernels", "kernels.*", "cuda"]),
    ("ops", ["ops", "ops.*"]),
    ("engine", [f"autograd.{name}" for name in ENGINE]),
    (
        "tensor",
        ["tensor", "tensor_*", "methods", "printing", "random", "creation"],
    ),
    (
        "functions",
        [
            "indexing",
            "overloads",
            "overloads.*",
            "return_types",
            "functions",
            "custom_ops",
            "return_checks",
            "special",
            "sparse",
            "ndimage",
            "ndimage.*",
            "signal",
            "fft",
            "linalg",
            "masked",
        ],
    ),
    (
        "autograd",
        ["autograd", "_C", *[f"autograd.{name}" for name in ABOVE_TENSOR], "device_hooks"],
    ),
    ("nn", ["nn", "nn.*", "optim", "optim.*"]),
    (
        "tools",
        [
            *("func", "func.*", "numpy", "utils", "utils.*", "monitor", "distributed"),
            *("serialization", "serialization.*", "safetensors", "safetensors.*"),
        ],
    ),
    ("root", ["gradhook"]),
    ("commands", ["benchmarks", "info", "demo", "demo.*", "__main__"]),
]
# Stricter than the layers: (who, never imports).
NEVER = [
    ("hooks.*", "[!h]*"),
    ("nn.tree", "*"),
    ("ops*", "backend"),
    ("ops*", "autograd*"),
    ("ops*", "tensor*"),
    ("autograd.engine", "tensor*"),
]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "gradhook"


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer_of(module: str) -> int | None:
    for level, (_, patterns) in enumerate(LAYERS):
        if any(fnmatchcase(module, pattern) for pattern in patterns):
            return level
    return None


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes, those in functions too, but for the bodies of `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            for other in child.orelse:
                yield other
                yield from nodes_that_run(other)
        else:
            yield child
            yield from nodes_that_run(child)


def imported_names(source: str, module: str, is_package: bool) -> Iterator[str]:
    """Absolute dotted names that a file imports; `from a import b` gives a.b."""
    for node in nodes_that_run(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                full = ["gradhook", *(module.split(".") if module != "gradhook" else [])]
                kept = full[: len(full) - node.level + is_package]
                base = ".".join([*kept, *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            if called in ("importlib.import_module", "import_module", "__import__"):
                yield str(node.args[0].value)


def imports_of(module: str) -> set[str]:
    """The gradhook modules (names without "gradhook.") that a module imports."""
    path = MODULES[module]
    found = set()
    for name in imported_names(path.read_text("utf-8"), module, path.name == "__init__.py"):
        if name != "gradhook" and not name.startswith("gradhook."):
            continue
        inner = name.removeprefix("gradhook").lstrip(".")
        while inner and inner not in MODULES:  # a name inside a module: the module is imported
            inner = inner.rpartition(".")[0]
        found.add(inner or "gradhook")
    return found - {module}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_own_layer_and_below(module):
    level = layer_of(module)
    assert level is not None, f"gradhook.{module} has no layer; give it one in LAYERS"
    for other in sorted(imports_of(module)):
        below = layer_of(other)
        assert below is not None and below <= level, (
            f"gradhook.{module} ({LAYERS[level][0]}) imports {other}: from above, or no module"
        )
        for who, never in NEVER:
            forbidden = fnmatchcase(module, who) and fnmatchcase(other, never)
            assert not forbidden, f"gradhook.{module} never imports gradhook.{other}"


@pytest.mark.parametrize("module", [name for name in MODULES if name != "backend"])
def test_only_backend_imports_cupy(module):
    path = MODULES[module]
    names = imported_names(path.read_text("utf-8"), module, path.name == "__init__.py")
    tops = {name.partition(".")[0] for name in names}
    assert not tops & {"cupy", "cupyx", "cupy_backends"}, "ask gradhook.backend for CuPy instead"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import cupy.cuda as c", {"cupy.cuda"}),
        ("def f():\n    from gradhook import tensor", {"gradhook.tensor"}),
        (
            "from .. import storage\nfrom . import graph",
            {"gradhook.storage", "gradhook.autograd.graph"},
        ),
        ("from .graph import Node", {"gradhook.autograd.graph.Node"}),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cupy",
            {"typing.TYPE_CHECKING"},
        ),
        ("import importlib\nimportlib.import_module('cupy')", {"importlib", "cupy"}),
    ],
)
def test_every_way_to_import_is_seen_but_those_for_type_checkers(source, names):
    assert set(imported_names(source, "autograd.engine", False)) == names
