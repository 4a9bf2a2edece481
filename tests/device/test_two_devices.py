"""Two devices in one process; on the CPU test device with CPUDEVICE_COUNT=2."""

from __future__ import annotations

import math

import pytest

import gradhook

pytestmark = pytest.mark.cuda
N = 1 << 12
MOVES = {
    "to": lambda x: x.to("cuda:1"),
    "as_tensor": lambda x: gradhook.as_tensor(x.cupy(), device="cuda:1"),
}


@pytest.fixture(autouse=True)
def two_devices():
    """Skip where there is one. The current device is 0, before and after."""
    if gradhook.cuda.device_count() < 2:
        pytest.skip("needs two devices: CPUDEVICE_COUNT=2 has them, `make test-device` runs it so")
    yield
    gradhook.cuda.set_device(0)


def test_a_stream_of_another_device_is_left_also_where_the_block_changed_the_device():
    s = gradhook.cuda.Stream("cuda:1")
    with s:
        gradhook.cuda.set_device(0)
    assert gradhook.cuda.current_stream("cuda:1").is_default
    assert gradhook.cuda.current_stream("cuda:0").is_default
    assert gradhook.cuda.current_device() == 0


def test_a_move_from_the_host_lands_on_the_device_that_was_asked_for():
    x = gradhook.ones(3, device="cpu").to("cuda:1")
    assert x.device.index == 1 and gradhook.cuda.current_device() == 0
    assert x.tolist() == [1] * 3


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("current", [0, 1])
def test_a_move_waits_for_the_stream_that_makes_its_source(current, move, deferred):
    x = gradhook.full((64, 64), 2.0, device="cuda:0").t() * 3
    with gradhook.cuda.device(current):
        y = MOVES[move](x)
        z = y * 2
    assert z.device.index == 1 and z.tolist()[0][:2] == [12, 12]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("current", [0, 1])
def test_a_tensor_that_moved_is_kept_until_the_other_device_has_it(current, move, deferred):
    x = gradhook.full((N,), 2.0, device="cuda:0")
    with gradhook.cuda.device(current):
        y = MOVES[move](x)
    del x
    rubbish = [gradhook.full((N,), 9.0, device="cuda:0") for _ in range(3)]
    assert rubbish[-1].tolist()[0] == 9 and y.tolist()[:2] == [2, 2]


def test_values_are_read_on_the_current_stream_of_their_own_device(deferred):
    s = gradhook.cuda.Stream("cuda:1")
    with s:
        x = gradhook.full((N,), 2.0, device="cuda:1") * 3
        gradhook.cuda.set_device(0)
        assert x.tolist()[:2] == [6, 6]


def test_a_copy_to_the_host_runs_on_the_device_of_its_array(deferred):
    x = gradhook.full((N,), 2.0, device="cuda:1")
    handle = x.storage().host_async()
    x.mul_(5)
    assert handle.result()[0] == 2 and x.tolist()[0] == 10


def test_a_device_that_is_synchronized_need_not_be_the_current_one(deferred):
    s = gradhook.cuda.Stream("cuda:1")
    with s:
        gradhook.full((N,), 2.0, device="cuda:1")
    gradhook.cuda.synchronize("cuda:1")
    assert s.query() and gradhook.cuda.current_device() == 0


def test_the_cache_of_every_device_is_emptied():
    gradhook.cuda.empty_cache()
    before = gradhook.cuda.memory_reserved(1)
    x = gradhook.full((N,), 2.0, device="cuda:1")
    assert gradhook.cuda.memory_reserved(1) >= before + x.nbytes
    del x
    gradhook.cuda.empty_cache()
    assert gradhook.cuda.memory_reserved(1) <= before


def test_memory_is_counted_for_each_device():
    measures = {
        "allocated": gradhook.cuda.memory_allocated,
        "stats": lambda d: gradhook.cuda.memory_stats(d)["allocated_bytes"],
    }
    before = {(k, d): measure(d) for k, measure in measures.items() for d in (0, 1)}
    x = gradhook.full((N,), 2.0, device="cuda:1")
    for (k, d), had in before.items():
        assert measures[k](d) - had == (x.nbytes if d == 1 else 0)
    assert gradhook.cuda.memory_reserved(1) >= x.nbytes


def test_two_devices_in_one_process():
    x = gradhook.tensor([1.0, -2.0, 3.0], device="cuda:0", requires_grad=True)
    y = x.to("cuda:1")
    weight = gradhook.full((3,), 2.0, device="cuda:1", requires_grad=True)
    z = (y * weight + 1.0).exp().log()
    assert z.device == gradhook.device("cuda:1") and gradhook.cuda.current_device() == 0
    z.to("cuda:0").sum().backward()
    assert (x.grad.device.index, weight.grad.device.index) == (0, 1)
    assert x.grad.cpu().tolist() == pytest.approx([2] * 3, rel=1e-5)
    assert weight.grad.cpu().tolist() == pytest.approx([1, -2, 3], rel=1e-5)
    weight.grad.mul_(2)
    assert weight.grad.device.index == 1
    with pytest.raises(RuntimeError, match="at least two devices: cuda:0, cuda:1"):
        x + y
    with gradhook.cuda.device(1):
        assert gradhook.ones(1, device="cuda").device.index == 1
        assert (x * 2).device.index == 0


def test_two_devices_on_streams_of_their_own(deferred):
    x = gradhook.ones(3, device="cuda", requires_grad=True)
    s = gradhook.cuda.Stream("cuda:1")
    y = x.to("cuda:1")
    s.wait_stream(gradhook.cuda.current_stream("cuda:1"))
    with s:
        z = y * 3
    gradhook.cuda.current_stream("cuda:1").wait_stream(s)
    z.to("cuda:0").sum().backward()
    assert x.grad.tolist() == [3] * 3


def test_what_is_saved_in_host_memory_comes_back_to_its_own_device():
    x = gradhook.full((3,), 2.0, device="cuda:1", requires_grad=True)
    with gradhook.autograd.graph.save_on_cpu():
        y = x.exp()
    with gradhook.cuda.device(0):
        saved = y.grad_fn._saved_result
        assert gradhook.cuda.current_device() == 0
    assert saved.device.index == 1 and saved.detach().cupy().device.id == 1
    assert saved.tolist() == pytest.approx([math.exp(2.0)] * 3)


def busy():
    """The current stream of device 1, which has work queued; device 0 is the current one."""
    s = gradhook.cuda.current_stream("cuda:1")
    gradhook.full((N,), 2.0, device="cuda:1").mul_(3)
    assert s.is_default and gradhook.cuda.current_device() == 0
    return s


def test_a_default_stream_is_asked_on_its_own_device(deferred):
    s = busy()
    assert gradhook.cuda.current_stream("cuda:0").query() and not s.query()


def test_a_default_stream_is_waited_for_on_its_own_device(deferred):
    s = busy()
    s.synchronize()
    with gradhook.cuda.device(1):
        assert s.query()


def test_an_event_marks_a_default_stream_of_its_own_device(deferred):
    s = busy()
    event = s.record_event()
    gradhook.cuda.synchronize("cuda:0")
    assert event.device == s.device and not event.query()
    with pytest.raises(RuntimeError, match=r"Event device cuda:1 does not match.* cuda:0"):
        event.record(gradhook.cuda.current_stream("cuda:0"))


def test_a_default_stream_waits_on_its_own_device(deferred):
    s = gradhook.cuda.Stream("cuda:0")
    with s:
        x = gradhook.ones(3, device="cuda:0") * 2
    y = gradhook.zeros(3, device="cuda:1")
    with gradhook.cuda.device(0):
        gradhook.cuda.current_stream("cuda:1").wait_event(s.record_event())
    gradhook.cuda.current_stream("cuda:1").synchronize()
    assert s.query() and x.device.index == 0 and y.tolist() == [0] * 3
