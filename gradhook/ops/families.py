"""Imports every family of ops once, so that importing this module fills the table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

_NOT_FAMILIES = {"__init__", "axes", "families", "namespace", "table"}

FAMILIES = tuple(
    sorted(f.stem for f in Path(__file__).parent.glob("*.py") if f.stem not in _NOT_FAMILIES)
)

for _name in FAMILIES:
    import_module(f"gradhook.ops.{_name}")
