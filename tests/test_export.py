"""Arrays in and out without copies, and what refuses to leave the graph."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook.autograd.graph import increment_version


def test_dlpack_shares_memory_both_ways() -> None:
    array = np.arange(4.0)
    tensor = gradhook.from_dlpack(array)
    array[0] = 7
    assert tensor.tolist() == [7, 1, 2, 3]
    back = np.from_dlpack(tensor)
    back[1] = 9
    assert array[1] == 9


def test_a_tensor_with_history_does_not_leave_the_graph() -> None:
    x = gradhook.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"tensor\.detach\(\)"):
        np.from_dlpack(x)
    with pytest.raises(RuntimeError, match=r"tensor\.detach\(\)"):
        x.numpy()


def test_a_cpu_tensor_has_no_cuda_array() -> None:
    x = gradhook.ones(2, device="cpu")
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        x.cupy()


def test_a_write_behind_the_tensors_back_is_seen_once_it_is_declared() -> None:
    array = np.ones(3)
    weight = gradhook.from_numpy(array)
    x = gradhook.ones(3, dtype=gradhook.float64, device="cpu", requires_grad=True)
    y = (x * weight).sum()
    array[:] = 5
    increment_version(weight)
    with pytest.raises(RuntimeError, match="version 1; expected version 0"):
        y.backward()
    with pytest.raises(TypeError, match="found int"):
        increment_version([1])


def test_setting_data_leaves_what_was_saved_of_the_old_memory() -> None:
    x = gradhook.tensor([2.0], requires_grad=True)
    y = x * x
    x.storage()
    x.data = gradhook.tensor([5.0])
    assert x.storage().array.tolist() == [5.0]
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0]
