"""Streams and events, in deferred mode where there is the CPU test device: a missing wait then
shows as NaN or as old values.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import gradhook
from gradhook import streams

pytestmark = pytest.mark.cuda


def leaf(n=3):
    return gradhook.ones(n, device="cuda", requires_grad=True)


def test_streams_and_events_have_torchs_behaviour(deferred):
    s, event = gradhook.cuda.Stream(), gradhook.cuda.Event()
    assert gradhook.cuda.current_stream().is_default
    with gradhook.cuda.stream(s) as inside:
        assert gradhook.cuda.current_stream() == s == inside
        x = gradhook.ones(3, device="cuda") * 2
        event.record()
    assert gradhook.cuda.current_stream() == gradhook.cuda.default_stream()
    assert not event.query() and not s.query()
    event.synchronize()
    assert event.query() and x.tolist() == [2] * 3
    with pytest.raises(ValueError, match="enable_timing"):
        event.elapsed_time(event)


def test_an_event_that_was_never_recorded_is_done_and_holds_nobody_up():
    event = gradhook.cuda.Event(enable_timing=True)
    event.wait()
    event.synchronize()
    assert event.query() and event.device is None
    with pytest.raises(ValueError, match="must be recorded"):
        event.elapsed_time(event)


def test_a_node_remembers_its_stream_only_when_it_is_not_the_default_one():
    x, s = leaf(), gradhook.cuda.Stream()
    assert (x * 2).grad_fn.hooks is None
    with s:
        assert (x * 2).grad_fn.hooks.stream == s


def test_a_chain_over_two_streams_has_right_gradients(deferred):
    a, b = gradhook.cuda.Stream(), gradhook.cuda.Stream()
    x = leaf()
    a.wait_stream(gradhook.cuda.current_stream())
    with a:
        y = x * 2
    b.wait_stream(a)
    with b:
        z = y * 3
    gradhook.cuda.current_stream().wait_stream(b)
    total = (z * 5).sum()
    total.backward()
    copied = x.grad + 0  # on the caller's stream, which waited
    assert copied.tolist() == [30] * 3


def test_the_nodes_hooks_run_on_its_stream(deferred):
    s, seen = gradhook.cuda.Stream(), []
    x = leaf()
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        y = x * 2
        z = y * y
    gradhook.cuda.current_stream().wait_stream(s)
    y.register_hook(lambda g: seen.append(gradhook.cuda.current_stream()))
    z.sum().backward()
    assert seen == [s] and gradhook.cuda.current_stream().is_default
    assert x.grad.tolist() == [8] * 3


def test_gradients_of_two_streams_are_summed_after_both_arrived(deferred):
    a, b = gradhook.cuda.Stream(), gradhook.cuda.Stream()
    x = leaf(1000)
    h = x * 1
    for s in (a, b):
        s.wait_stream(gradhook.cuda.current_stream())
    with a:
        y = h * 2
    with b:
        z = h * 3
    for s in (a, b):
        gradhook.cuda.current_stream().wait_stream(s)
    (y + z).sum().backward()
    assert x.grad.tolist() == [5] * 1000


def test_a_leaf_of_a_side_stream_is_joined_to_the_callers_stream(deferred):
    s = gradhook.cuda.Stream()
    with s:
        x = leaf()
        y = x * 2
    gradhook.cuda.current_stream().wait_stream(s)
    (y * 4).sum().backward()
    doubled = x.grad * 1
    assert doubled.tolist() == [8] * 3


def test_backward_called_on_a_side_stream_waits_and_is_waited_for(deferred):
    s = gradhook.cuda.Stream()
    x = leaf()
    y = (x * 2).sum()
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        scale = gradhook.full((), 7.0, device="cuda")
        y.backward(scale)
        got = x.grad * 1
        assert gradhook.cuda.current_stream() == s
    gradhook.cuda.current_stream().wait_stream(s)
    assert got.tolist() == [14] * 3


def test_a_module_on_a_side_stream_with_hooks(deferred):
    s, seen = gradhook.cuda.Stream(), []
    module = gradhook.nn.Linear(3, 2).to("cuda")
    module.register_full_backward_hook(
        lambda m, gi, go: seen.append((gradhook.cuda.current_stream(), gi[0] * 1))
    )
    x = leaf()
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        out = module(x * 1)
    gradhook.cuda.current_stream().wait_stream(s)
    out.sum().backward()
    assert seen[0][0] == s
    expected = module.weight.detach().cpu().numpy().sum(0)
    np.testing.assert_allclose(x.grad.cpu().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(seen[0][1].cpu().numpy(), expected, rtol=1e-6)


def test_an_error_in_a_hook_restores_the_callers_stream(deferred):
    s = gradhook.cuda.Stream()
    x = leaf()
    with s:
        y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert gradhook.cuda.current_stream().is_default and gradhook.cuda.current_device() == 0


def test_what_a_side_stream_still_uses_is_not_given_out_again(deferred):
    s = gradhook.cuda.Stream()
    x = gradhook.ones(1 << 12, device="cuda")
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        y = x * 3
    x.record_stream(s)  # after its use, or before it: what counts is when the tensor dies
    pointer = x.data_ptr()
    del x
    other = gradhook.zeros(1 << 12, device="cuda")
    assert other.data_ptr() != pointer and gradhook.cuda.memory_stats()["held_for_streams"] > 0
    gradhook.cuda.current_stream().wait_stream(s)
    assert y.cpu().tolist()[:2] == [3, 3] and other.tolist()[0] == 0
    gradhook.cuda.synchronize()
    assert streams.held_count() == 0


def test_a_copy_to_the_host_keeps_its_array_and_buffer_until_it_is_done(deferred):
    x = gradhook.ones(1 << 12, device="cuda")
    handle = x.storage().host_async()
    del x
    rubbish = [gradhook.full((1 << 12,), 9.0, device="cuda") for _ in range(3)]
    assert rubbish[-1].tolist()[0] == 9 and handle.result()[0] == 1


def test_a_backward_on_side_streams_keeps_what_it_saved_until_they_are_done(deferred):
    s, n = gradhook.cuda.Stream(), 1 << 12
    b = gradhook.full((n,), 2.0, device="cuda", requires_grad=True)
    y, factor = b * 9.0, gradhook.full((n,), 3.0, device="cuda")
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        a = gradhook.full((n,), 2.0, device="cuda", requires_grad=True)
        z = a * factor  # recorded last: its backward comes first, and frees what it saved
    gradhook.cuda.current_stream().wait_stream(s)
    del factor
    g = gradhook.full((n,), 1.0, device="cuda")
    gradhook.autograd.backward([y, z], [g, g])
    assert b.grad.tolist()[:3] == [9] * 3 and a.grad.tolist()[:3] == [3] * 3


def test_a_number_beside_tensors_of_two_streams_is_made_for_each(deferred):
    s, x = gradhook.cuda.Stream(), leaf().detach()
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        y = x * 2.71875
    assert (x * 2.71875).tolist() == [2.71875] * 3 and y.is_cuda


def test_backward_of_a_scalar_starts_on_the_stream_that_calls_it(deferred):
    s = gradhook.cuda.Stream()
    y = gradhook.ones(1, 1, 1, 1, 1, device="cuda", requires_grad=True)
    z = y * 2
    with s:
        x = gradhook.ones(1, 1, 1, 1, 1, device="cuda", requires_grad=True)
        (x * 2).backward()
    z.backward()
    assert y.grad.tolist() == [[[[[2.0]]]]]


def test_callbacks_run_on_the_callers_stream(deferred):
    s, seen = gradhook.cuda.Stream(), []
    with s:
        x = leaf()
        y = x * 2
    gradhook.cuda.current_stream().wait_stream(s)
    y.register_hook(
        lambda g: gradhook.autograd.queue_callback(
            lambda: seen.append((gradhook.cuda.current_stream().is_default, (x.grad + 0).tolist()))
        )
    )
    y.sum().backward()
    assert seen == [(True, [2] * 3)]


def test_a_broadcast_is_summed_before_its_gradient_goes_to_another_stream(deferred):
    s = gradhook.cuda.Stream()
    x = leaf()
    h = x * 3
    rows = gradhook.full((4, 3), 2.0, device="cuda")
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        y = h * rows
    gradhook.cuda.current_stream().wait_stream(s)
    y.sum().backward()
    assert x.grad.tolist() == [24] * 3


def test_a_gradient_from_a_side_stream_is_kept_until_the_default_stream_has_read_it(deferred):
    s = gradhook.cuda.Stream()
    x = gradhook.full((1 << 12,), 1.0, device="cuda", requires_grad=True)
    h = x * 3
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        y = h * 2
    gradhook.cuda.current_stream().wait_stream(s)
    y.backward(gradhook.full((1 << 12,), 1.0, device="cuda"))
    with s:
        rubbish = [gradhook.full((1 << 12,), 9.0, device="cuda") for _ in range(6)]
        s.synchronize()
    assert x.grad.tolist()[:3] == [6] * 3 and len(rubbish) == 6


def test_gradients_of_one_output_of_several_are_kept_until_the_default_stream_has_read_them(
    deferred,
):
    s = gradhook.cuda.Stream()
    x = gradhook.full((1 << 13,), 1.0, device="cuda", requires_grad=True)
    part, _ = (x * 3).split(1 << 12)
    s.wait_stream(gradhook.cuda.current_stream())
    with s:
        y, z = part * 2, part * 4
    gradhook.cuda.current_stream().wait_stream(s)
    ones = gradhook.full((1 << 12,), 1.0, device="cuda")
    gradhook.autograd.backward([y, z], [ones, ones])
    with s:
        rubbish = [gradhook.full((1 << 12,), 9.0, device="cuda") for _ in range(6)]
        s.synchronize()
    assert x.grad.tolist()[:3] == [18] * 3 and len(rubbish) == 6


def test_many_gradients_of_several_streams_are_summed_when_all_arrived(deferred):
    x = leaf()
    h, parts = x * 1, []
    for k in range(12):
        s = gradhook.cuda.Stream()
        s.wait_stream(gradhook.cuda.current_stream())
        with s:
            parts.append(h * float(k))
        gradhook.cuda.current_stream().wait_stream(s)
    sum(p.sum() for p in parts).backward()
    assert x.grad.tolist() == [66] * 3


def test_the_child_of_a_fork_is_told_in_one_error():
    leaf()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            gradhook.zeros(2, device="cuda")
            message = "no error"
        except Exception as error:
            message = str(error)
        os.write(write, message.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"Cannot re-initialize CUDA in forked subprocess" in os.read(read, 1000)


@pytest.mark.parametrize("kind", ["complete", "params_ready"])
def test_hooks_that_wait_for_several_nodes_see_what_any_stream_made(kind, deferred):
    s, seen = gradhook.cuda.Stream(), []

    class Two(gradhook.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = gradhook.nn.Parameter(gradhook.ones(3, device="cuda"))
            self.b = gradhook.nn.Parameter(gradhook.ones(3, device="cuda"))

        def forward(self, x):
            s.wait_stream(gradhook.cuda.current_stream())
            with s:
                y = x * self.a * 2
            gradhook.cuda.current_stream().wait_stream(s)
            return y * self.b

    module = Two()

    def hook(*args):
        # sums on the caller's stream, which must have waited for the other one
        seen.append((gradhook.cuda.current_stream().is_default, module.a.grad + module.b.grad))

    if kind == "complete":
        module.register_full_backward_hook(hook, when="complete")
    else:
        module.register_params_ready_hook(hook)
    x = leaf()
    (module(x * 1) * 5).sum().backward()
    assert [(default, t.tolist()) for default, t in seen] == [(True, [20] * 3)]
    assert x.grad.tolist() == [10] * 3
