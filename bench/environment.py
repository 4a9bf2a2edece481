"""So many threads everywhere: an environment that has to stand before NumPy is imported."""

from __future__ import annotations

import os
import sys

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GRADHOOK_NUM_THREADS")
# They choose OpenBLAS kernels for another CPU than this one: NumPy's products would be measured
# with them and PyTorch's without. Unset together: one without the other is no valid choice.
FOREIGN = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
_MARK = "GRADHOOK_BENCH_ENVIRONMENT"


def cleaned(environment: dict[str, str], threads: int = 1) -> dict[str, str]:
    """The environment with so many threads a library, tensors on the CPU, and without FOREIGN."""
    kept = {name: value for name, value in environment.items() if name not in FOREIGN}
    numbers = dict.fromkeys(THREADS, str(threads))
    return {**kept, **numbers, "GRADHOOK_DEVICE": "cpu", _MARK: "clean"}


def threads() -> int:
    """The threads of this process, as `cleaned` gave them; 1 where it did not."""
    clean = os.environ.get(_MARK) == "clean"
    return int(os.environ["OMP_NUM_THREADS"]) if clean else 1


def restart_cleaned(module: str = "bench", threads: int = 1) -> None:
    """Replace this process by `python -m <module>` in the cleaned environment, unless it is so."""
    if os.environ.get(_MARK) != "clean":
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, command, cleaned(dict(os.environ), threads))
