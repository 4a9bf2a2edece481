"""Devices and what moves between them: `.to`, counts, the host copy, host hooks, generators."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import backend, profiler

pytestmark = pytest.mark.cuda


def leaf(device="cuda"):
    return gradhook.tensor([1.0, -2.0, 3.0], device=device, requires_grad=True)


def test_a_gradient_comes_back_to_the_device_its_tensor_is_on():
    x = leaf("cpu")
    y = (x.cuda() * x.to("cuda")).to("cpu", gradhook.float64)
    y.sum().backward()
    assert (x.grad.device.type, x.grad.dtype) == ("cpu", gradhook.float32)
    np.testing.assert_array_equal(x.grad.numpy(), [2, -4, 6])
    assert x.cpu() is x and y.cpu() is y


def test_a_second_derivative_goes_through_moves():
    x = leaf("cpu")
    (first,) = gradhook.autograd.grad((x.cuda() ** 3).cpu().sum(), x, create_graph=True)
    (second,) = gradhook.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), [6, -12, 18])


def test_mixing_devices_is_one_clear_error():
    x = leaf()
    for other in (leaf("cpu"), np.ones(3, np.float32)):
        with pytest.raises((RuntimeError, TypeError), match=r"one device|same device.*cuda:0"):
            x + other


def test_a_gradient_on_another_device_than_its_tensor_is_one_clear_error():
    with pytest.raises(backend.DeviceError, match=r"gradient 0: found a NumPy array.*cuda:0"):
        (leaf() * 2).backward(gradhook.ones(3, device="cpu"))
    with pytest.raises(RuntimeError, match="different device: cpu, not cuda:0"):
        leaf().grad = gradhook.ones(3, device="cpu")


def test_creation_on_a_device_copies_nothing():
    with profiler.transfers() as t:
        made = [
            gradhook.zeros(3, device="cuda"),
            gradhook.arange(5, device="cuda"),
            gradhook.eye(2, device="cuda"),
            gradhook.full((2,), 7.0, device="cuda"),
            gradhook.ones_like(gradhook.zeros(2, device="cuda")),
        ]
    assert t.count == 0 and all(m.is_cuda for m in made)
    assert made[1].tolist() == [0, 1, 2, 3, 4]


def test_a_training_step_moves_nothing_until_a_hook_asks_and_then_once():
    model = gradhook.nn.Sequential(gradhook.nn.Linear(4, 5), gradhook.nn.ReLU()).to("cuda")
    x = gradhook.ones(2, 4, device="cuda")
    seen = []
    for _ in range(3):
        model[0].register_full_backward_hook(lambda m, gi, go: None)
    with profiler.transfers() as t:
        model(x).sum().backward()
    assert t.count == 0
    for _ in range(3):
        model[0].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].storage().host()))
    with profiler.transfers() as t:
        model(x).sum().backward()
    assert (t.count, t.nbytes, len(seen)) == (1, 2 * 5 * 4, 3)
    assert t.by_module() == {"Linear": 40}


def test_a_model_names_its_modules_by_path_in_forward_and_backward():
    class Peeks(gradhook.nn.Module):
        def forward(self, x):
            return x * (1 if x.sum().item() else 2)

    seen = []
    model = gradhook.nn.Sequential(gradhook.nn.Sequential(Peeks()), gradhook.nn.ReLU()).to("cuda")
    model[1].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].storage().host()))
    x = gradhook.ones(2, 4, device="cuda", requires_grad=True)
    with profiler.transfers(model) as t:
        model(x).sum().backward()
    assert t.by_module() == {"0.0": 4, "1": 32}
    with profiler.transfers() as t:
        x.tolist()
    assert t.by_module() == {"": 32}


def test_transfers_say_the_direction():
    with profiler.transfers() as t:
        gradhook.ones(2, device="cpu").cuda().cpu()
    assert [(e.kind, e.nbytes) for e in t.events] == [("h2d", 8), ("d2h", 8)]


def test_the_host_copy_is_made_once_and_dropped_by_a_write():
    x = gradhook.ones(4, device="cuda")
    with profiler.transfers() as t:
        first, again = x.storage().host(), x.storage().host()
        x.add_(1)
        after = x.storage().host()
    assert first is again and t.count == 2
    assert (first[0], after[0]) == (1, 2)


def test_a_copy_under_way_shows_the_values_of_its_start(deferred):
    x = gradhook.ones(4, device="cuda")
    handle = x.storage().host_async()
    assert x.storage().host_async() is handle and not handle.done()
    x.mul_(5)
    later = x.storage().host_async()
    gradhook.cuda.current_stream().synchronize()  # the write is over, the copy perhaps not
    assert handle.result().tolist() == [1] * 4
    assert later.result().tolist() == [5] * 4 and later.done()


def test_many_copies_need_one_wait(deferred, device_counters):
    grads = [gradhook.full((3,), float(k), device="cuda") for k in range(5)]
    handles = [g.storage().host_async() for g in grads]
    before = device_counters()
    handles[-1].wait()
    assert all(h.done() for h in handles)
    after = device_counters()
    assert after["syncs"] - before["syncs"] == 1
    assert [h.result()[0] for h in handles] == [0, 1, 2, 3, 4]


def test_host_uses_a_copy_that_is_under_way(deferred):
    x = gradhook.ones(4, device="cuda")
    with profiler.transfers() as t:
        x.storage().host_async()
        assert x.storage().host().tolist() == [1] * 4
    assert t.count == 1


def test_a_host_hook_sees_what_the_hooks_before_it_left_at_the_end_of_the_pass(deferred):
    x, seen = leaf(), []
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.register_hook(seen.append, host=True)
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert isinstance(seen[0], np.ndarray) and seen[0].tolist() == [10] * 3
    assert x.grad.tolist() == [200] * 3


def test_host_hooks_of_modules_cost_one_wait_a_pass(deferred, device_counters):
    model = gradhook.nn.Sequential(*[gradhook.nn.Linear(3, 3) for _ in range(4)]).to("cuda")
    seen = []
    for m in model:
        m.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)), host=True)
        m.register_full_backward_pre_hook(lambda m, go: seen.append(go), host=True)
    x = gradhook.ones(2, 3, device="cuda", requires_grad=True)
    loss = model(x).sum()
    before = device_counters()
    loss.backward()
    after = device_counters()
    assert len(seen) == 8
    assert after["syncs"] - before["syncs"] == 1
    np.testing.assert_allclose(seen[-1][0][0], x.grad.cpu().numpy())


def test_a_pinned_generator_repeats_itself_on_the_device():
    a = gradhook.randn(5, device="cuda", generator=gradhook.Generator("cuda").manual_seed(3))
    b = gradhook.randn(5, device="cuda", generator=gradhook.Generator("cuda").manual_seed(3))
    assert a.is_cuda and a.tolist() == b.tolist()
    assert sorted(gradhook.randperm(6, device="cuda").tolist()) == list(range(6))
    assert gradhook.randint(3, (4,), device="cuda").is_cuda
    assert gradhook.randn(4, dtype=gradhook.complex64, device="cuda").is_cuda


def test_arrays_of_cupy_go_in_and_out_without_a_copy():
    cupy = backend.cupy()
    array = cupy.arange(3.0)
    t = gradhook.as_tensor(array)
    assert t.cupy() is array and t.device == gradhook.device("cuda:0")
    assert cupy.asarray(t).data.ptr == array.data.ptr
    t.add_(1)
    assert array.get().tolist() == [1, 2, 3]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_detect_anomaly_names_the_node_with_one_read_a_run(device):
    x = gradhook.tensor([0.0, 1.0], device=device, requires_grad=True)
    with gradhook.autograd.detect_anomaly(), profiler.transfers() as t:
        (x * 2 + 1).sum().backward()
    assert t.count == (device == "cuda")
    with (
        gradhook.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan or inf.*0th output"),
    ):
        (x.sqrt() * 2).sum().backward()
    x.sqrt().sum().backward()
