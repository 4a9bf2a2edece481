"""DataLoader(device=...): batches on their way to a device while others are used."""

from __future__ import annotations

from collections import namedtuple

import cpudevice
import numpy as np
import pytest

import gradhook
from gradhook import backend, streams
from gradhook.autograd.binding import make
from gradhook.utils import data
from gradhook.utils.data.transfer import Arrival

pytestmark = pytest.mark.cuda
Point = namedtuple("Point", "x name")


class Numbers(data.Dataset):
    """0..n-1 as float32 arrays of 64 elements."""

    def __init__(self, n=6):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return Point(np.full(64, i, "f4"), str(i))


def forked(dataset, batch_size=2, **options):
    """Workers that never touch the device, so a fork does; a fresh process costs a second."""
    return data.DataLoader(
        dataset, batch_size, num_workers=1, multiprocessing_context="fork", **options
    )


@pytest.mark.parametrize("make", [data.DataLoader, forked])
def test_batches_arrive_right_when_streams_are_late(make, deferred):
    found = []
    for x, names in make(Numbers(), 2, device="cuda"):
        assert x.is_cuda and len(names) == 2
        found.append((x * 2, x.exp()))
    for i, (double, _) in enumerate(found):
        assert double[:, 5].tolist() == [4 * i, 4 * i + 2]


def test_the_host_waits_for_nothing_and_each_tensor_is_moved_once(device_counters):
    def step():
        for x, _ in data.DataLoader(Numbers(), 2, device="cuda"):
            x * 2

    step()  # makes the streams and pools
    device_counters(reset=True)
    step()
    found = device_counters()
    assert found["syncs"] == 0 and (found["d2h"], found["h2d"]) == (0, 3)


def test_the_next_batch_is_on_its_way_while_this_one_is_used():
    batches = iter(forked(Numbers(), device="cuda", timeout=60))
    while len(batches.waiting) < 2:  # until the worker has made two
        batches._receive(60)
    x, _ = next(batches)
    assert isinstance(batches._arriving.leaves[0], streams.Upload)
    assert x[:, 0].tolist() == [0, 1] and next(batches)[0][:, 0].tolist() == [2, 3]


def test_an_upload_does_not_wait_for_what_is_computed_before_it(deferred):
    device = backend.resolved("cuda")
    gradhook.full((64,), 9.0, device="cuda").exp()
    sent = streams.upload(np.full(64, 3, "f4"), device)
    sent.event.synchronize()
    # a GPU may have done the exponential by now
    assert not cpudevice.started() or not streams.current_stream(device).query()
    assert sent.array().tolist() == [3] * 64


def test_an_upload_does_not_get_memory_that_earlier_work_still_writes(deferred):
    earlier = gradhook.full((64,), 9.0, device="cuda", dtype=gradhook.float32)
    del earlier  # its launch is still to come
    sent = streams.upload(np.full(64, 3, "f4"), backend.resolved("cuda"))
    sent.event.synchronize()
    gradhook.cuda.synchronize()
    assert sent.array().tolist() == [3] * 64


def test_memory_that_a_stream_still_reads_is_not_given_to_the_next_upload(deferred):
    device = backend.resolved("cuda")
    sent = streams.upload(np.full(64, 3, "f4"), device)
    sent.event.synchronize()
    double = make(sent.array()) * 2  # queued
    del sent
    streams.release_done()
    later = streams.upload(np.full(64, 9, "f4"), device)
    later.event.synchronize()
    assert double.tolist() == [6] * 64


def test_a_host_array_may_be_written_at_once(deferred):
    host = np.full(64, 3, "f4")
    sent = streams.upload(host, backend.resolved("cuda"))
    host[:] = 9
    assert sent.array().tolist() == [3] * 64


def test_memory_of_a_batch_is_not_given_to_the_next_before_it_is_used(deferred):
    results = []
    for x, _ in data.DataLoader(Numbers(20), 1, device="cuda"):
        results.append(x + 1)
        del x
    assert [r[0, 63].item() for r in results] == list(range(1, 21))


def test_memory_is_given_back_once_copies_and_uses_are_done(deferred):
    for x, _ in data.DataLoader(Numbers(), 2, device="cuda"):
        _ = x + 1
    del x
    gradhook.cuda.synchronize()
    assert streams.held_count() == 0


def test_a_batch_nobody_wants_any_more_writes_no_other_memory(deferred):
    device = backend.resolved("cuda")
    streams.upload(np.full(64, 3, "f4"), device)
    later = streams.upload(np.full(64, 9, "f4"), device)
    assert later.array().tolist() == [9] * 64


def test_a_batch_is_for_the_stream_that_is_current_when_it_is_taken(deferred):
    side = gradhook.cuda.Stream()
    sent = Arrival([gradhook.full((64,), 4.0, device="cpu")], backend.resolved("cuda"))
    with side:
        (x,) = sent.batch()
        y = x * 2
    side.synchronize()
    assert y.tolist() == [8] * 64


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 1)])
@pytest.mark.parametrize("dtype", ["f8", "f2", "i8", "?", "c8", "u1"])
def test_all_shapes_and_dtypes_arrive(shape, dtype):
    host = np.ones(shape, dtype)[..., ::-1] if shape else np.ones(shape, dtype)
    array = streams.upload(host, backend.resolved("cuda")).array()
    assert array.shape == shape and array.dtype == host.dtype and array.tolist() == host.tolist()


def test_trees_of_tensors_arrive_and_the_rest_stays():
    kept = object()
    weight = gradhook.ones(2, device="cpu", requires_grad=True)
    tree = {"a": [gradhook.ones(3, device="cpu"), kept], "p": Point(weight * 2, "n"), "n": 3}
    found = Arrival(tree, backend.resolved("cuda")).batch()
    assert found["a"][0].is_cuda and found["a"][1] is kept and found["n"] == 3
    assert found["p"].x.is_cuda and found["p"].name == "n"
    found["p"].x.sum().backward()  # a tensor with history keeps it
    assert weight.grad.tolist() == [2, 2]


def test_pinned_batches_are_on_the_cpu_in_page_locked_memory():
    class Own:
        def pin_memory(self):
            return "pinned"

    for x, _ in data.DataLoader(Numbers(), 2, pin_memory=True):
        assert not x.is_cuda and not x.numpy().flags.owndata
    assert data.transfer.pin_memory([Own(), 3]) == ["pinned", 3]
    assert x[:, 0].tolist() == [4, 5]


def test_tensors_of_the_device_are_collated_there():
    d = data.TensorDataset(gradhook.arange(4, device="cuda"))
    assert all(x.is_cuda for (x,) in data.DataLoader(d, 2))


def test_workers_are_not_forked_once_cuda_is_in_use():
    from gradhook.utils.data.worker_pool import default_context

    gradhook.ones(2, device="cuda")
    assert default_context().get_start_method() != "fork"


def test_cuda_in_a_forked_worker_is_one_clear_error():
    class OnDevice(Numbers):
        def __getitem__(self, i):
            return gradhook.ones(2, device="cuda")

    with pytest.raises(backend.DeviceError, match="Cannot re-initialize CUDA in forked"):
        list(forked(OnDevice()))
