"""The scripts of examples/ as modules, for their tests."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples"
if not FOLDER.is_dir():
    pytest.skip("an sdist carries no examples", allow_module_level=True)


def example(name: str) -> ModuleType:
    """The script of this name; scripts that import each other are one module each."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
