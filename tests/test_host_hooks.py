"""Host hooks and host copies on the CPU, and what gradhook.cuda says without CUDA."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import backend


def leaf():
    return gradhook.tensor([1.0, 2.0, 3.0], device="cpu", requires_grad=True)


def test_a_host_hook_observes_the_gradient_in_its_place_among_the_others():
    x, seen = leaf(), []
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.register_hook(seen.append, host=True)
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert type(seen[0]) is np.ndarray and seen[0].tolist() == [10] * 3
    assert not seen[0].flags.writeable and x.grad.tolist() == [200] * 3


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (2, 3)])
def test_a_host_hook_gets_an_array_of_the_shape_of_the_gradient(shape):
    log, x = [], gradhook.ones(shape, requires_grad=True)
    (x * 3).sum().backward()  # without a hook
    y = x * 3
    y.register_hook(lambda g: log.append((g.shape, g.ndim, g.sum())), host=True)
    y.sum().backward()
    assert log == [(shape, len(shape), y.numel())]


def test_a_host_hook_of_a_module_gets_numpy_arrays_in_the_shape_of_the_call():
    module, seen = gradhook.nn.Linear(3, 2), []
    module.to("cpu").register_full_backward_hook(lambda *args: seen.append(args), host=True)
    module.register_full_backward_pre_hook(lambda *args: seen.append(args), host=True)
    module(leaf()).sum().backward()
    (_, (before,)), (owner, (grad_input,), (grad_output,)) = seen
    assert owner is module and before.tolist() == grad_output.tolist() == [1, 1]
    np.testing.assert_allclose(grad_input, module.weight.detach().numpy().sum(0))


def test_a_host_hook_may_not_return_a_value_and_is_named():
    def doubles(g):
        return g * 2

    x = leaf()
    (x * 1).register_hook(doubles, host=True)
    y = x * 1
    y.register_hook(doubles, host=True)
    with pytest.raises(RuntimeError, match="host hook 'doubles' returned a ndarray, expected None"):
        y.sum().backward()
    with pytest.raises(TypeError, match="not callable"):
        x.register_hook(3, host=True)


def test_a_removed_host_hook_is_not_called():
    x, seen = leaf(), []
    x.register_hook(seen.append, host=True).remove()
    x.sum().backward()
    assert seen == []


def test_a_host_copy_on_the_cpu_is_done_at_once():
    x = leaf().detach()
    handle = x.storage().host_async()
    assert handle.done() and handle.result().tolist() == [1, 2, 3]


def test_without_cuda_the_module_says_so(monkeypatch):
    nothing = backend._Cupy(None, 0, "CuPy is not installed")
    monkeypatch.setattr(backend, "_find_cupy", lambda: nothing)
    assert not gradhook.cuda.is_available() and gradhook.cuda.device_count() == 0
    gradhook.cuda.synchronize()
    gradhook.cuda.empty_cache()
    for ask in (gradhook.cuda.Stream, gradhook.cuda.Event, gradhook.cuda.current_stream):
        with pytest.raises(backend.DeviceError, match="CuPy is not installed; install CuPy"):
            ask()
    with pytest.raises(RuntimeError, match="record_stream: found a CPU tensor"):
        leaf().record_stream(None)


def test_cupy_without_a_driver_is_said_once_and_numpy_is_used(monkeypatch):
    found = backend._Cupy(np, 0, "CuPy 14.2.0 sees no CUDA device")
    monkeypatch.setattr(backend, "_find_cupy", lambda: found)
    monkeypatch.setenv("GRADHOOK_DEVICE", "auto")
    monkeypatch.setattr(backend.Process, "told", False)
    with pytest.warns(UserWarning, match="sees no CUDA device; gradhook uses NumPy"):
        assert gradhook.ones(1).device.type == "cpu"
    gradhook.ones(1)


@pytest.mark.parametrize("sync", ["end", "node"])
def test_detect_anomaly_names_the_first_node_whose_gradient_is_not_finite(sync):
    x = gradhook.tensor([0.0, 4.0], device="cpu", requires_grad=True)
    with gradhook.autograd.detect_anomaly(sync=sync):
        (x * x).sum().backward()
        with pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan or infinite.*0th"):
            (x.sqrt() * 3).sum().backward()
    with pytest.raises(ValueError, match="expected 'end' or 'node'"):
        gradhook.autograd.detect_anomaly(sync="never")


def test_detect_anomaly_ends_with_its_block():
    x = gradhook.tensor([0.0], device="cpu", requires_grad=True)
    with gradhook.autograd.detect_anomaly():
        pass
    x.sqrt().sum().backward()
    assert x.grad.tolist() == [float("inf")]


def test_a_host_hook_that_is_called_outside_a_backward_run_observes_at_once():
    module, seen = gradhook.nn.Identity(), []
    module.register_full_backward_hook(lambda *args: seen.append(args[1:]), host=True)
    (hook,) = module._backward_hooks.values()
    hook(module, (leaf(),), (None,))
    ((grad_input,), (grad_output,)) = seen[0]
    assert grad_input.tolist() == [1, 2, 3] and grad_output is None
