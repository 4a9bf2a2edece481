"""PyTorch's own number of kernels a training step, which tests/device/test_launches.py is about."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent.parent
if not (ROOT / "bench" / "launches.py").is_file():
    pytest.skip("bench/ is not in this copy of the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import launches  # noqa: E402


def test_pytorch_runs_as_many_kernels_as_the_limit_says():
    found = launches.torch_counts()
    assert [sum(kernels.values()) for kernels in found.values()] == [27, 54]
    for kernels in found.values():
        assert "_foreach_addcdiv_" in kernels and "view" not in kernels
