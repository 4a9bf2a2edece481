"""The command `gradhook bench`: finds the benchmark suite and runs it in an environment of its own.

The suite lies in bench/ of a checkout (and of the container), not in the installed package.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "GRADHOOK_BENCH"
_PACKAGES = ("pytest", "pytest_benchmark", "rich", "matplotlib")


def folders() -> list[Path]:
    """Where the suite is looked for, in this order.

    $GRADHOOK_BENCH alone where it is set; else bench/ of the checkout that gradhook is imported
    from, then bench/ in the current folder.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return [Path(given)]
    checkout = Path(__file__).resolve().parent.parent
    return list(dict.fromkeys(root / "bench" for root in (checkout, Path.cwd())))


def find() -> Path | None:
    """The folder of the suite; None where there is none."""
    return next((path.resolve() for path in folders() if (path / "suite.py").is_file()), None)


def main(arguments: Sequence[str]) -> int:
    """Run the suite with these arguments. Returns its exit status; 1 when it cannot be run."""
    folder = find()
    if folder is None:
        looked = ", ".join(map(str, folders()))
        print(
            f"gradhook bench: no benchmark suite (suite.py) found in {looked}; the installed "
            f"package does not bring it: run from a checkout of gradhook, or set {VARIABLE} to "
            "its bench folder",
            file=sys.stderr,
        )
        return 1
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"gradhook bench needs {', '.join(missing)}: not installed; install the extra that "
            "brings it: pip install 'gradhook[bench]'",
            file=sys.stderr,
        )
        return 1
    return subprocess.run(_command(arguments), env=_environment(folder), check=False).returncode


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "bench.suite", *arguments]


def _environment(folder: Path) -> dict[str, str]:
    """This process's environment with bench importable, and a checkout's gradhook, from anywhere.

    The current folder is not searched: it may hold another folder named bench.
    """
    checkout = Path(__file__).resolve().parent.parent
    paths = [str(folder.parent)]
    paths += [str(checkout)] if (checkout / "pyproject.toml").is_file() else []
    paths += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    joined = os.pathsep.join(dict.fromkeys(paths))
    return {**os.environ, "PYTHONPATH": joined, "PYTHONSAFEPATH": "1"}
