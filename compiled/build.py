"""Compile the modules of the core with Cython and the machine's C compiler.

Each .py file is compiled as it is; what the .pxd file beside it says of types is all that is added.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

MODULES = (
    "autograd/_layout",
    "autograd/_recorders",
    "autograd/api",
    "autograd/binding",
    "autograd/carriers",
    "autograd/engine",
    "autograd/module_hook_node",
    "autograd/module_hook_runners",
    "autograd/node_hooks",
    "autograd/views",
    "nn/barriers",
    "nn/call",
    "nn/module_cast",
    "nn/module_walk",
)
# Not annotations: they say what mypy checks, as `int` for NumPy's integers, too.
DIRECTIVES = {"language_level": 3, "annotation_typing": False}
FLAGS = [] if os.name == "nt" else ["-O3", "-g0", "-w"]


def build(root: Path, work: Path) -> dict[str, str]:
    """Compile the package under `root`, with `work` for what comes between.

    Returns the built files: path -> path in the wheel. Errors: what Cython or the compiler raises.
    """
    import numpy
    from Cython.Build import cythonize  # in the build environment only
    from setuptools import Distribution, Extension

    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(root / "gradhook", work / "gradhook", ignore=shutil.ignore_patterns("*.so"))
    sys.path.insert(0, str(root))
    from compiled.recorders import module_text

    (work / "gradhook/autograd/_recorders.pyx").write_text(module_text())
    here = Path.cwd()
    os.chdir(work)  # Cython finds the packages, and so the .pxd files, from here
    try:
        extensions: list[Any] = [
            Extension("gradhook." + m.replace("/", "."), [source_of(work, m)]) for m in MODULES
        ]
        for extension in extensions:
            extension.extra_compile_args = FLAGS
            extension.include_dirs = [numpy.get_include()]
        made = cythonize(extensions, compiler_directives=DIRECTIVES, quiet=True)
        command: Any = Distribution({"ext_modules": made}).get_command_obj("build_ext")
        command.inplace, command.parallel = True, os.cpu_count()
        command.ensure_finalized()
        command.run()
        outputs = [Path(command.get_ext_fullpath(e.name)).resolve() for e in made]
    finally:
        os.chdir(here)
        sys.path.remove(str(root))
    return {str(path): path.relative_to(work.resolve()).as_posix() for path in outputs}


def source_of(work: Path, module: str) -> str:
    """The module's .py file, or .pyx where it is only for the compiled core."""
    path = f"gradhook/{module}.py"
    return path if (work / path).exists() else f"{path}x"
