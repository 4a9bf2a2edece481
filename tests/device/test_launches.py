"""How many kernels a training step launches, against PyTorch's number (bench/launches.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import cpudevice
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
if not (ROOT / "bench" / "launches.py").is_file():
    pytest.skip("bench/ is not in this copy of the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import launches  # noqa: E402
from bench.launch_steps import STEPS  # noqa: E402

# What PyTorch 2.13 runs, by its profiler: tests/oracle/test_launches_torch.py counts them.
PYTORCH = dict(zip(STEPS, (27, 54), strict=True))

pytestmark = pytest.mark.cuda


@pytest.fixture(scope="module")
def counted():
    if not cpudevice.started():
        pytest.skip("launches are counted on the CPU test device")
    return launches.gradhook_counts()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_launches_at_most_three_quarters_of_pytorch_s_kernels(counted, name):
    found = counted[name]
    assert sum(found.values()) <= launches.ALLOWED * PYTORCH[name], found


@pytest.mark.parametrize("name", STEPS)
def test_the_optimizer_s_step_is_one_launch(counted, name):
    assert sum(n for kernel, n in counted[name].items() if "adam" in kernel) == 1


def test_cross_entropy_is_one_launch_each_way(counted):
    for found in counted.values():
        names = {kernel: n for kernel, n in found.items() if "entropy" in kernel}
        assert names == {
            "gradhook_cross_entropy_float32": 1,
            "gradhook_cross_entropy_input_float32": 1,
        }
