"""save_on_cpu on a device: copies on side streams that the host never waits for."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import autograd, backend, streams
from gradhook.autograd.graph import save_on_cpu

pytestmark = pytest.mark.cuda


def chain(x, n=4):
    for _ in range(n):
        x = x.exp() * 0.1
    return x


def test_values_come_back_right_when_streams_are_late(deferred):
    expected = gradhook.ones(64, device="cpu", requires_grad=True)
    chain(expected).sum().backward()
    x = gradhook.ones(64, device="cuda", requires_grad=True)
    with save_on_cpu():
        y = chain(x)
    rubbish = [gradhook.full((64,), 9.0, device="cuda") for _ in range(3)]
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.grad.tolist()) and rubbish[0].tolist()[0] == 9


def test_a_write_right_after_saving_does_not_reach_the_copy(deferred):
    x = gradhook.full((64,), 3.0, device="cuda", requires_grad=True)
    y = x * 1
    with save_on_cpu():
        z = y * y
    y.fill_(100)
    z.sum().backward()
    assert x.grad.tolist() == [6] * 64


def test_the_host_waits_for_nothing_and_moves_each_tensor_once_a_way(device_counters):
    x = gradhook.ones(64, device="cuda", requires_grad=True)
    g = gradhook.ones(64, device="cuda")
    with save_on_cpu():
        chain(x).backward(g)  # makes the streams and pools
    device_counters(reset=True)
    with save_on_cpu():
        y = chain(x)
    y.backward(g)
    found = device_counters()
    assert found["syncs"] == 0 and (found["d2h"], found["h2d"]) == (4, 4)


def test_the_next_nodes_tensor_is_on_its_way_while_this_node_runs():
    x = gradhook.ones(64, device="cuda", requires_grad=True)
    with save_on_cpu():
        a = x.exp()
        b = a.exp()
    first, second = (t.grad_fn.saved[0].value for t in (a, b))
    assert first.array is None
    autograd.grad(b, a, gradhook.ones(64, device="cuda"), retain_graph=True)
    assert second.array is None and first.array is not None


def test_memory_is_given_back_once_the_copies_are_done(deferred):
    x = gradhook.ones(64, device="cuda", requires_grad=True)
    with save_on_cpu():
        y = chain(x)
    gradhook.cuda.synchronize()
    assert streams.held_count() == 0
    y.sum().backward()
    gradhook.cuda.synchronize()
    assert streams.held_count() == 0


def parked(value):
    """64 values in host memory, and the address that an array of 64 gets next on the device."""
    x = gradhook.full((64,), value, device="cuda")
    copy = streams.copy_to_host(x._a, snapshot=True)
    gradhook.cuda.synchronize()
    assert streams.held_count() == 0
    return copy, backend.device_of(x._a)


def test_a_copy_back_waits_for_earlier_work_on_the_memory_it_gets(deferred):
    copy, device = parked(3.0)
    earlier = gradhook.full((64,), 9.0, device="cuda")
    address = earlier.data_ptr()
    del earlier  # its launch is still to come
    array, event = streams.copy_from_host(copy, device)
    event.synchronize()
    gradhook.cuda.synchronize()
    assert array.data.ptr == address and array.tolist() == [3] * 64


def test_a_copy_back_that_nobody_wants_any_more_writes_no_other_memory(deferred):
    copy, device = parked(3.0)
    _, event = streams.copy_from_host(copy, device)
    del _
    later = gradhook.full((64,), 9.0, device="cuda")
    gradhook.cuda.current_stream().synchronize()
    event.synchronize()
    assert later.tolist() == [9] * 64


def test_a_copy_back_reads_its_host_memory_before_others_get_it(deferred):
    copy, device = parked(3.0)
    array, event = streams.copy_from_host(copy, device)
    del copy
    others = [gradhook.full((64,), 9.0, device="cuda").storage().host() for _ in range(3)]
    event.synchronize()
    assert array.tolist() == [3] * 64 and len(others) == 3


@pytest.mark.parametrize("draw", [gradhook.rand, gradhook.randn])
def test_a_checkpoint_draws_the_same_numbers_of_a_device_again(draw):
    x = gradhook.ones(32, device="cuda", requires_grad=True)

    def fn(x):
        return (x * draw(32, device="cuda")).exp().sin()

    results = []
    for run in (fn, lambda x: gradhook.utils.checkpoint.checkpoint(fn, x)):
        gradhook.manual_seed(3)
        y = run(x)
        after = draw(4, device="cuda").tolist()
        (g,) = autograd.grad(y.sum(), x)
        results.append((g.tolist(), after, draw(4, device="cuda").tolist()))
    assert results[0] == results[1]
