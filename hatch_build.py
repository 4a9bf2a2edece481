"""The build hook of hatchling: with GRADHOOK_COMPILE=1 a wheel has the compiled core, too.

Without it nothing is compiled and the wheel is py3-none-any. Editable installs are never compiled:
what runs there are the .py files as they are edited.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILES = os.environ.get("GRADHOOK_COMPILE", "") not in ("", "0")


class CompiledCore(BuildHookInterface):
    """Adds the compiled modules to the wheel, beside their sources."""

    def dependencies(self) -> list[str]:
        """What the build environment needs: NumPy, to import gradhook and ask for its texts."""
        return ["cython>=3.2,<4", "setuptools>=70", "numpy>=2.0"] if COMPILES else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is for this Python on this machine."""
        if not COMPILES or version != "standard":
            return
        root = Path(self.root)
        sys.path.insert(0, self.root)
        try:
            from compiled.build import build
        finally:
            sys.path.remove(self.root)
        build_data["force_include"].update(build(root, root / "build" / "compiled"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
