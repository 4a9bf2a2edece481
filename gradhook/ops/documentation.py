"""What the docstring of a public op says beside its row's own text: gradient, dtypes, errors and
source, from the entry of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gradhook.ops.table import Op

_NUMBERS = {
    None: "any dtype",
    "f": "a floating dtype",
    "fc": "a floating or complex dtype",
    "iuf": "real numbers, no bool",
    "biuf": "real numbers",
}
_PROMOTED = {
    "arith": "; inputs of several dtypes are promoted to one",
    "float": "; inputs are promoted to one, integers to the default dtype",
    "same": ", the same for all inputs",
    "none": "",
}


def documented(row: Op) -> str:
    """The docstring of the public function of a row."""
    parts = [row.doc, _gradient(row), f"Dtypes: {_dtypes(row)}.", f"Errors: {_errors(row)}."]
    if "Source:" not in row.doc and row.torch is not None:
        parts.append(f"Source: torch.{row.torch.partition('(')[0]}.")
    return "\n\n".join(parts)


def _gradient(row: Op) -> str:
    if row.composite:
        return "Gradient: that of the ops it is made of, of any order."
    of = [name for name in row.inputs if row.formulas.get(name) is not None]
    return f"Gradient: of {', '.join(of)}, of any order." if of else "Gradient: none."


def _dtypes(row: Op) -> str:
    return _NUMBERS[row.takes] + _PROMOTED[row.promote]


def _errors(row: Op) -> str:
    found = []
    if row.takes is not None:
        found.append("NotImplementedError for another dtype")
    if row.promote == "same" and len(row.inputs) > 1:
        found.append("RuntimeError where the dtypes differ")
    if row.promote in ("arith", "float") and len(row.inputs) > 1:
        found.append("RuntimeError where the shapes do not broadcast")
    if {"axis", "axes"} & set(row.attributes):
        found.append("IndexError for a dimension out of range")
    found.append("TypeError for an argument that is no Tensor")
    return "; ".join(found)


def sourced(functions: Iterable[tuple[str, Callable[..., Any]]], namespace: str = "") -> None:
    """Docstrings of functions written by hand name torch's function of the same path, unless they
    name a source of their own.
    """
    for name, function in functions:
        doc = function.__doc__ or ""
        if "Source:" not in doc and name not in OWN:
            function.__doc__ = f"{doc.rstrip()}\n\nSource: torch.{namespace}{name}."


OWN = frozenset(["from_cupy"])  # no function of PyTorch
