"""Helpers of the tests that hold on every device."""

from __future__ import annotations

from typing import Any

import gradhook
from gradhook import memory


def share_memory(a: Any, b: Any) -> bool:
    """Whether two tensors can share memory."""
    return memory.shares_memory(a.detach()._a, b.detach()._a)


def put(array: Any) -> gradhook.Tensor:
    """A tensor on the device under test: over the array's memory on the CPU, else of its memory
    order.
    """
    return gradhook.from_numpy(array).to(gradhook.empty(0).device)
