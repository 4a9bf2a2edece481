"""save_on_cpu on every device: same gradients, copies that a write does not reach."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradhook
from gradhook import autograd
from gradhook.autograd.graph import save_on_cpu


def start():
    return gradhook.arange(1.0, 7.0).reshape(2, 3).requires_grad_()


def work(x):
    return (x * x).exp().t().sin() / x.sum(0)[:, None]


@pytest.mark.parametrize("pin_memory", [False, True])
def test_gradients_of_both_orders_are_the_same(pin_memory):
    results = []
    for saved in (False, True):
        x = start()
        if saved:
            with save_on_cpu(pin_memory=pin_memory):
                y = work(x * 0.3)
        else:
            y = work(x * 0.3)
        (g,) = autograd.grad(y.sum(), x, create_graph=True, retain_graph=True)
        (gg,) = autograd.grad(g.sum(), x, retain_graph=True)
        y.sum().backward()
        results.append((g.tolist(), gg.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


def test_a_write_after_saving_does_not_reach_the_copy():
    x = start()
    y = x * 1
    with save_on_cpu():
        z = y * y
    y.fill_(100)
    z.sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()


def test_what_is_saved_dies_with_the_graph():
    gc.collect()
    gc.disable()
    try:
        x = start()
        with save_on_cpu():
            y = work(x)
        refs = [weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.saved[0].value)]
        del y
        assert [r() for r in refs] == [None, None]
    finally:
        gc.enable()


def test_only_copies_from_cuda_devices_are_offered():
    with pytest.raises(ValueError, match="device_type: found 'xpu', expected 'cuda'"):
        save_on_cpu(device_type="xpu")


@pytest.mark.cpu_only(reason="on a device each use gets an array of its own")
def test_a_copy_written_by_a_backward_is_an_error_for_the_next_one():
    class Rude(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with gradhook.no_grad():
                x.mul_(0)
            return g

    with save_on_cpu():
        y = Rude.apply(start() * 1).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"^one of the variables needed .*the copy that save_on"):
        y.backward()
