"""Every wait, record and release by itself; tests/mutations leaves each out in turn."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import streams

pytestmark = pytest.mark.cuda
N = 1 << 12


def leaf(n=3):
    return gradhook.ones(n, device="cuda", requires_grad=True)


def test_a_stream_that_was_synchronized_is_done(deferred):
    s = gradhook.cuda.Stream()
    with s:
        y = gradhook.ones(3, device="cuda") * 2
    s.synchronize()
    assert s.query() and y.tolist() == [2] * 3


def test_a_device_that_was_synchronized_is_done_on_every_stream(deferred):
    s = gradhook.cuda.Stream()
    with s:
        y = gradhook.ones(3, device="cuda") * 2
    gradhook.cuda.synchronize()
    assert s.query() and gradhook.cuda.current_stream().query() and y.tolist() == [2] * 3


@pytest.mark.parametrize("on", ["current", "another"])
def test_an_event_makes_a_stream_wait(on, deferred):
    a = gradhook.cuda.Stream()
    b = gradhook.cuda.Stream() if on == "another" else gradhook.cuda.current_stream()
    with a:
        y = gradhook.ones(3, device="cuda") * 2
    event = a.record_event()
    event.wait(b if on == "another" else None)
    with b:
        z = y + 1
        assert z.tolist() == [3] * 3


def test_what_is_held_is_let_go_when_the_next_is_held():
    for _ in range(10):
        gradhook.ones(3, device="cuda").storage().host_async().wait()
    assert len(streams._held) == 1  # the last: nothing came after it


def test_what_is_held_is_let_go_when_it_is_counted():
    gradhook.ones(3, device="cuda").storage().host_async().wait()
    assert streams.held_count() == 0


def test_memory_that_was_held_is_free_after_a_synchronize(deferred):
    gradhook.cuda.synchronize()
    before = gradhook.cuda.memory_allocated()
    x = gradhook.full((N,), 1.0, device="cuda")
    x.storage().host_async()
    del x
    gradhook.cuda.synchronize()
    assert gradhook.cuda.memory_allocated() <= before


def test_memory_that_was_held_goes_back_with_the_cache():
    gradhook.cuda.empty_cache()
    before = gradhook.cuda.memory_reserved()
    x = gradhook.full((N,), 1.0, device="cuda")
    x.storage().host_async().wait()
    del x
    gradhook.cuda.empty_cache()
    assert gradhook.cuda.memory_reserved() <= before


def test_memory_that_two_streams_use_is_kept_until_both_are_done(deferred):
    x, made = gradhook.ones(N, device="cuda"), []
    first, second = gradhook.cuda.Stream(), gradhook.cuda.Stream()
    for s in (first, second):
        s.wait_stream(gradhook.cuda.current_stream())
        with s:
            made.append(x * 3)
        x.record_stream(s)
    del x
    second.synchronize()
    streams.release_done()
    rubbish = [gradhook.full((N,), 9.0, device="cuda") for _ in range(3)]
    gradhook.cuda.current_stream().synchronize()
    first.synchronize()
    assert [m.tolist()[:2] for m in made] == [[3, 3], [3, 3]] and len(rubbish) == 3


def test_a_barrier_waits_for_gradients_of_the_default_stream_and_of_another(deferred):
    s, seen = gradhook.cuda.Stream(), []
    module = gradhook.nn.Identity()
    module.register_full_backward_hook(lambda m, gi, go: seen.append(go[0] * 1))
    x = leaf()
    h = module(x * 1)
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        y = h * 3
    z = h * 2  # recorded last: its gradient comes first
    gradhook.cuda.current_stream().wait_stream(s)
    (y + z).sum().backward()
    s.synchronize()  # before anything runs the default stream
    assert x.grad.tolist() == [5] * 3 and seen[0].tolist() == [5] * 3


def test_the_real_part_of_a_gradient_is_not_adopted_in_a_run_with_streams(deferred):
    s = gradhook.cuda.Stream()
    x, c = leaf(), gradhook.full((3,), 1 + 2j, device="cuda")
    y = (x * c).real
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        z = y * 2
    gradhook.cuda.current_stream().wait_stream(s)
    z.sum().backward()
    assert x.grad.tolist() == [2] * 3 and x.grad.is_contiguous()
