"""`xp` of formulas and composites on bare arrays: exactly the table's functions, bound to one
array module.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gradhook.kernels.registry import with_kernel
from gradhook.ops.table import TABLE, Op, forgetting


class TableNamespace:
    """The table's functions over bare arrays of one module; `xp.exp(x)` is the table's `exp` on
    numpy or cupy, on cupy its hand-written kernel where there is one.

    Attributes are bound on first use. AttributeError names an op that the table lacks.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        row = TABLE.get(name)
        if row is None:
            raise AttributeError(
                f"the op table has no {name!r}; formulas and composites may only use table "
                f"functions"
            )
        forward = partial(row.forward, self if row.composite else self._module)
        bound = self._bound(name, forward)
        setattr(self, name, bound)
        return bound

    def _bound(self, name: str, forward: Any) -> Any:
        return with_kernel(name, self._module, forward)


class FormulaNamespace(TableNamespace):
    """The same without kernels: what a kernel must equal."""

    def _bound(self, name: str, forward: Any) -> Any:
        return forward


_NAMESPACES: dict[Any, TableNamespace] = {}


def table_namespace(module: Any) -> TableNamespace:
    """The one TableNamespace of an array module (numpy, cupy)."""
    found = _NAMESPACES.get(module)
    if found is None:
        found = _NAMESPACES.setdefault(module, TableNamespace(module))
    return found


def _forget(row: Op) -> None:
    for namespace in _NAMESPACES.values():
        vars(namespace).pop(row.name, None)


forgetting.append(_forget)
