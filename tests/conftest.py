"""Settings of the whole test run. No heavy imports: one test file alone starts at once."""

from __future__ import annotations

import os
import sys
import warnings

import pytest

pytest_plugins = ["cpudevice.plugin"]  # pytest --device cuda

# The tests are about values, not speed; two spinning thread pools on few cores slow them down.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Tests that ask for no device mean the CPU, on a machine with a GPU, too.
os.environ.setdefault("GRADHOOK_DEVICE", "cpu")


@pytest.fixture(autouse=True)
def _quiet_arithmetic() -> None:
    """`filterwarnings = error` stands before gradhook's own filter: log(0) is -inf, no error."""
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradhook\.")


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Layers start with the same numbers in every run of a test, whatever ran before it."""
    random = sys.modules.get("gradhook.random")
    if random is not None:
        random.manual_seed(0)
