"""bench/gpu_check.py runs whole on the CPU test device, and fails where a kernel is wrong."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
if not (ROOT / "bench" / "gpu_check.py").is_file():
    pytest.skip("bench/ is not in this copy of the sources", allow_module_level=True)
for _folder in (ROOT, ROOT / "tests"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))


@pytest.fixture
def test_device():
    """Skips, with the reason, where the CPU test device cannot be used."""
    cpudevice = pytest.importorskip("cpudevice", reason="tests/cpudevice is not here")
    if reason := cpudevice.why_not():
        pytest.skip(f"needs the CPU test device: {reason}")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")},
    )  # fmt: skip


def test_every_check_passes_on_the_cpu_test_device(test_device, tmp_path):
    # without the group of hook tests: they are tests of this very run
    out = tmp_path / "check.json"
    groups = "kernels,steps,times"
    done = run("-m", "bench.gpu_check", "--test-device", "--only", groups, "--out", str(out))
    failed = [line for line in done.stdout.splitlines() if "FAILED" in line]
    assert done.returncode == 0, "\n".join(failed) or done.stderr
    record = json.loads(out.read_text("utf-8"))
    assert record["device"] == "CPU test device, no GPU" and "0 failed" in done.stdout
    found = {check["group"] for check in record["checks"]}
    assert found == {"kernels", "steps", "times"}
    for check in record["checks"]:  # no figure of a GPU comes from here
        assert "bandwidth" not in check["name"] and "GB/s" not in check["detail"]


WRONG = """
import sys
sys.path.insert(0, "tests")
import cpudevice
cpudevice.start()
from gradhook.kernels import registry
right = registry.KERNELS["softmax"]
registry.KERNELS["softmax"] = lambda x, *, axis: right(x, axis=axis) * 1.001
from bench import gpu_check
sys.exit(gpu_check.main(["--only", "kernels", "--out", sys.argv[1]]))
"""


def test_a_wrong_kernel_is_a_failed_check(test_device, tmp_path):
    out = tmp_path / "check.json"
    done = run("-c", WRONG, str(out))
    assert done.returncode == 1, done.stderr
    checks = json.loads(out.read_text("utf-8"))["checks"]
    failed = {check["name"] for check in checks if check["ok"] is False}
    assert failed == {"softmax, float32"}


SUITE = """
import sys
sys.path.insert(0, "tests")
import cpudevice
cpudevice.start()
from bench import suite
sys.exit(suite.main(["--rows", "a forward hook", "--rounds", "1", "--out", sys.argv[1]]))
"""


def test_the_suite_runs_on_both_devices_where_there_are_two(test_device, tmp_path):
    done = run("-c", SUITE, str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "results.json").read_text("utf-8"))["rows"]
    assert [row["device"] for row in rows] == ["cpu", "cuda"]
    assert all({"gradhook", "raw"} <= set(row["contenders"]) for row in rows)
    assert "## cuda" in (tmp_path / "table.md").read_text("utf-8")


def test_without_a_device_it_says_why_and_what_to_do(tmp_path):
    gpu_check = importlib.import_module("bench.gpu_check")
    backend = importlib.import_module("gradhook.backend")
    if backend.is_available():
        pytest.skip("there is a CUDA device")
    assert gpu_check.main(["--out", str(tmp_path / "check.json")]) == 1
    assert not (tmp_path / "check.json").exists()


def test_the_reference_of_dropout_gives_the_known_answers_of_philox():
    """Known-answer vectors of Random123 (kat_vectors): philox4x32, 10 rounds."""
    philox = importlib.import_module("bench.gpu_other_kernels").philox
    ones = 0xFFFFFFFF
    found = philox(np.array([[0, 0, 0, 0]], np.uint64), 0)
    assert found.tolist() == [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]]
    found = philox(np.array([[ones] * 4], np.uint64), (ones << 32) | ones)
    assert found.tolist() == [[0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]]
