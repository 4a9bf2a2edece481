"""pytest plugin: `--device cuda` runs the tests on a GPU, else on the CPU test device.

Fixture device_counters: the device's counters, at 0 when a test starts. A test that calls a CUDA
function which the device lacks fails, even where the error is caught or the test skips.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import cpudevice

_HEADER = pytest.StashKey[str]()
ON_CPU_TEST_DEVICE = "the CPU test device: CuPy on host memory, no GPU"


def pytest_addoption(parser: pytest.Parser) -> None:
    """--device."""
    parser.addoption(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: on a GPU if CuPy sees one, else on the CPU test device, else skip",
    )


def gpu_visible() -> bool:
    """Whether there is an NVIDIA driver on this machine. Asks the system, imports no CuPy."""
    return any(Path(p).exists() for p in ("/dev/nvidiactl", "/dev/dxg"))


def _choose() -> tuple[str, bool]:
    """What --device cuda runs on, in words, and whether tests can run on it."""
    if cpudevice.started():
        return ON_CPU_TEST_DEVICE, True
    if gpu_visible() and not os.environ.get("CPUDEVICE_FORCE"):
        try:
            import cupy

            count = cupy.cuda.runtime.getDeviceCount()
            name = cupy.cuda.runtime.getDeviceProperties(0)["name"] if count else b""
        except Exception as error:
            return f"none: there is an NVIDIA device, but {type(error).__name__}: {error}", False
        if count:
            return f"GPU {name.decode()}, CuPy {cupy.__version__}", True
        return "none: there is an NVIDIA device, but CuPy sees none", False
    if reason := cpudevice.why_not():
        return f"none: no GPU, and no CPU test device: {reason}", False
    cpudevice.start()
    return ON_CPU_TEST_DEVICE, True


def pytest_configure(config: pytest.Config) -> None:
    """Start the device before any test module is imported."""
    config.addinivalue_line("markers", "cpu_only(reason): not run with --device cuda")
    if config.getoption("--device") == "cuda":
        words, usable = _choose()
        config.stash[_HEADER] = words
        if usable:
            os.environ["GRADHOOK_DEVICE"] = "cuda"


def pytest_report_header(config: pytest.Config) -> str:
    """Which device the tests run on."""
    return f"device: {config.stash.get(_HEADER, 'cpu')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what cannot run: all tests without a device, those marked cpu_only with one."""
    words = config.stash.get(_HEADER, None)
    if words is None:
        return
    for item in items:
        mark = item.get_closest_marker("cpu_only")
        reason = words if words.startswith("none") else mark and mark.kwargs["reason"]
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _fresh_counters() -> None:
    if cpudevice.started():
        with cpudevice.deferred(False):  # what the last test left waiting runs now
            cpudevice.reset()


@pytest.fixture
def device_counters() -> Any:
    """A function that gives the counters since the test's start or its last call with reset=True.

    Skips where the CPU test device is not in use: a GPU does not count.
    """
    if not cpudevice.started():
        pytest.skip("counters need the CPU test device: pytest --device cuda, without a GPU")

    def read(reset: bool = False) -> dict[str, int]:
        found = cpudevice.counters()
        if reset:
            cpudevice.reset()
        return found

    return read


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    """A function that the device lacks fails the test that called it."""
    report = yield
    if call.when == "call" and cpudevice.started() and (names := cpudevice.missing()):
        report.outcome = "failed"
        words = f"the CPU test device lacks {', '.join(sorted(set(names)))}"
        report.longrepr = f"{report.longrepr or ''}\n{words}".strip()
    return report
