"""What gradhook found on this machine: NumPy and BLAS, CuPy, devices, kernels."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
from typing import Any, cast

import numpy as np

from gradhook import backend, kernels
from gradhook.autograd import compiled
from gradhook.native import library


def report() -> str:
    """One line a thing, "name: what was found, or why not"."""
    rows = {
        "gradhook": _version(),
        "core": _core(),
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "NumPy": np.__version__,
        "BLAS": _blas(),
        "threads": _threads(),
        "CuPy": backend.cupy_version() or f"not used: {backend.why_not()}",
        "devices": _devices(),
        "kernels": kernels.status(),
        "native": library.status(),
    }
    return "\n".join(f"{name + ':':<10}{found}" for name, found in rows.items())


def _version() -> str:
    try:
        return importlib.metadata.version("gradhook")
    except importlib.metadata.PackageNotFoundError:
        return "not installed (run from its sources)"


def _core() -> str:
    parts = compiled.parts()
    return f"compiled (Cython): {', '.join(parts)}" if parts else "pure Python"


def _blas() -> str:
    config = cast("dict[str, Any]", np.show_config(mode="dicts"))
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _threads() -> str:
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only; knows of container limits
    cores = os.cpu_count() if affinity is None else len(affinity(0))
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ModuleNotFoundError:
        return f"{cores} CPU cores (install threadpoolctl to see BLAS threads)"
    pools = [
        f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpoolctl.threadpool_info()
    ]
    return f"{cores} CPU cores; {', '.join(pools) or 'no thread pool loaded'}"


def _devices() -> str:
    names = [f"cuda:{i} ({backend.device_name(i)})" for i in range(backend.device_count())]
    if not names:
        return f"cpu (no CUDA: {backend.why_not()})"
    return ", ".join(["cpu", *names])
