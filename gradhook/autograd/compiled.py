"""The compiled core, where it is installed: its functions, its parts by name.

It is an optional wheel of the same sources (CONTRIBUTING.md): Cython's C beside the .py files.
Without it `blank` is object.__new__ and no generated text has a compiled function.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Any

Factory = Callable[[dict[str, Any]], tuple[Any, Any]]

_NAME = f"{__package__}._layout"
_layout = importlib.import_module(_NAME) if find_spec(_NAME) else None
# A fresh Tensor or Node; its slots are still to be set.
blank: Callable[[type], Any] = object.__new__ if _layout is None else _layout.blank


def check() -> None:
    """Errors: ImportError when the compiled core was built for another Python."""
    if _layout is not None:
        _layout.check()


def factories() -> dict[str, Factory]:
    """The compiled functions of generated texts: Python text -> (its scope) -> (the function,
    redirect), where redirect(other) makes it hand its calls to another one.
    """
    if _layout is None:
        return {}
    found: dict[str, Factory] = importlib.import_module(f"{__package__}._recorders").FACTORIES
    return found


def parts() -> list[str]:
    """The names, within the package, of the compiled modules that are loaded."""
    suffixes = tuple(EXTENSION_SUFFIXES)
    files = {
        name: getattr(module, "__file__", None) or ""
        for name, module in tuple(sys.modules.items())
        if name.startswith("gradhook.")
    }
    return sorted(n.removeprefix("gradhook.") for n, f in files.items() if f.endswith(suffixes))
