"""Fixtures of the tests that need a CUDA device (pytest --device cuda)."""

from __future__ import annotations

from collections.abc import Iterator

import cpudevice
import pytest

import gradhook
from gradhook import backend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked cuda where there is no device."""
    if gradhook.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device: pytest --device cuda"))


@pytest.fixture
def deferred() -> Iterator[None]:
    """On the CPU test device: work runs only when something waits for it. Nothing on a GPU.

    With an empty memory pool: what is given back too early is what is given out next.
    """
    for index in backend.Process.devices:  # a device that is not in use stays so
        gradhook.cuda.synchronize(index)
    gradhook.cuda.empty_cache()
    if not cpudevice.started():
        yield
        return
    with cpudevice.deferred():
        yield
