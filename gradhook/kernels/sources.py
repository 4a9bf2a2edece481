"""The kernel sources, found in the checkout or in the installed package."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def where() -> Path | None:
    """The folder of the kernel sources; None when there is none.

    In a wheel gradhook/_kernels. In a checkout (editable install) kernels/ beside the package,
    believed only next to pyproject.toml: site-packages may hold another package of that name.
    """
    from pathlib import Path  # only here: its imports are a twentieth of gradhook's

    package = Path(__file__).resolve().parent.parent
    installed, checkout = package / "_kernels", package.parent / "kernels"
    if any(installed.glob("*.cu")):
        return installed
    if (package.parent / "pyproject.toml").is_file() and any(checkout.glob("*.cu")):
        return checkout
    return None


def names() -> list[str]:
    """The names of all kernel files, sorted, without .cu."""
    folder = where()
    return [] if folder is None else sorted(path.stem for path in folder.glob("*.cu"))


@functools.cache
def source(name: str) -> str:
    """The text of one kernel file. FileNotFoundError, with the names there are, for another."""
    folder = where()
    if folder is None or name not in names():
        raise FileNotFoundError(
            f"kernel {name!r} not found in {folder or 'gradhook/_kernels or ../kernels'}; there "
            f"are {', '.join(names()) or 'no kernels: install gradhook again'}"
        )
    return (folder / f"{name}.cu").read_text(encoding="utf-8")


@functools.cache
def header(name: str) -> str:
    """The text of a file that is no kernel: skeletons of a target, mathematics, the runtime."""
    folder = where()
    if folder is None:
        raise FileNotFoundError("no kernel sources found: install gradhook again")
    return (folder / name).read_text(encoding="utf-8")


@functools.cache
def target(machine: str) -> str:
    """The skeletons of one target, "cuda" or "cpu", with all that they include."""
    text = header(f"target_{machine}.h").replace("#pragma once", "")
    if machine == "cpu":
        math = header("math_cpu.h").replace("#pragma once", "")
        text = text.replace('#include "math_cpu.h"', math)
    return text
