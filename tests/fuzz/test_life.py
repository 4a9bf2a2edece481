"""Nothing outlives a pass: gradients, modules and hooks die by reference counting, also when a
hook raised at any point.
"""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gradhook
from gradhook import autograd, nn
from gradhook.autograd import graph as graph_tools
from gradhook.autograd.graph import saved_tensors_hooks

F64 = gradhook.float64


class Boom(Exception):
    pass


class Block(nn.Module):
    """A residual block with a weight and an inner module."""

    def __init__(self, inner=None):
        super().__init__()
        self.w = nn.Parameter(gradhook.tensor([0.5, 2.0], dtype=F64))
        self.inner = inner

    def forward(self, x):
        h = (x * self.w).tanh()
        h = h if self.inner is None else self.inner(h)
        return h + x


class Watch:
    """Every kind of hook on a model of nested and reused modules. Call number `fatal` raises; what
    hooks were given is held weakly."""

    def __init__(self, fatal=None):
        self.fatal, self.calls, self.given = fatal, 0, []

    def hook(self, kind):
        def called(*args):
            self.note(args)
            if self.calls == self.fatal:
                raise Boom(kind)
            self.calls += 1

        self.given.append(weakref.ref(called))
        return called

    def note(self, value):
        if isinstance(value, tuple | list):
            for v in value:
                self.note(v)
        elif isinstance(value, gradhook.Tensor):
            self.given.append(weakref.ref(value))

    def model(self):
        inner = Block()
        outer = nn.Sequential(Block(inner), inner)
        for m in (inner, outer, outer[0]):
            m.register_forward_pre_hook(self.hook("forward pre"))
            m.register_forward_hook(self.hook("forward"))
            m.register_full_backward_pre_hook(self.hook("full pre"))
            m.register_full_backward_hook(self.hook("full"))
        inner.w.register_hook(self.hook("tensor"))
        inner.w.register_post_accumulate_grad_hook(self.hook("accumulated"))
        self.given += [weakref.ref(m) for m in (inner, outer, outer[0], inner.w)]
        return outer

    def run(self, passes):
        """One life of a model: a forward, passes, the end."""
        model = self.model()
        x = gradhook.tensor([0.3, -0.7], dtype=F64, requires_grad=True)
        pack, unpack = self.hook("pack"), self.hook("unpack")
        with saved_tensors_hooks(lambda t: (pack(t), t.clone())[1], lambda t: (unpack(t), t)[1]):
            y = model(x)
        middle = y * y
        middle.retain_grad()
        middle.grad_fn.register_prehook(self.hook("node pre"))
        middle.grad_fn.register_hook(self.hook("node post"))
        middle.register_hook(self.hook("tensor"))
        graph_tools.register_multi_grad_hook((y, middle), self.hook("multi"))
        self.given += [weakref.ref(t) for t in (x, y, middle, y.grad_fn, middle.grad_fn)]
        total = middle.sum()
        for run in passes:
            run(total, x)


def first_order(total, x):
    total.backward(retain_graph=True)


def released(total, x):
    total.backward()


def grad_only(total, x):
    autograd.grad(total, [x], retain_graph=True)


def double(total, x):
    (g,) = autograd.grad(total, [x], create_graph=True)
    (g * g).sum().backward()


WAYS = {
    "backward": (released,),
    "twice": (first_order, released),
    "grad": (grad_only, grad_only),
    "double": (double,),
}


def lived(way, fatal):
    """The calls of one life, and what is alive after it. The collector is off."""
    watch = Watch(fatal)
    gc.disable()
    try:
        try:
            watch.run(WAYS[way])
        except Boom:
            pass
        alive = [r() for r in watch.given if r() is not None]
    finally:
        gc.enable()
    assert autograd.engine.current_task() is None and not autograd.engine._active
    assert gradhook.is_grad_enabled()
    return watch.calls, alive


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_a_pass(way):
    calls, alive = lived(way, None)
    assert calls > 20 and alive == []


@settings(max_examples=120, derandomize=True, database=None, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.sampled_from(sorted(WAYS)), st.integers(0, 10**6))
def test_nothing_outlives_a_pass_in_which_any_hook_raised(way, point):
    total, _ = lived(way, None)
    calls, alive = lived(way, point % total)
    assert calls == point % total and alive == []


@settings(max_examples=60, derandomize=True, database=None, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.integers(0, 10**6))
def test_a_graph_that_a_hook_broke_leaves_the_next_one_right(point):
    def gradients(fatal):
        watch = Watch(fatal)
        model = watch.model()
        x = gradhook.tensor([0.3, -0.7], dtype=F64, requires_grad=True)
        try:
            model(x).sum().backward()
        except Boom:
            watch.fatal = None
            model.zero_grad()
            x.grad = None
            model(x).sum().backward()
        return watch.calls, [t.grad.tolist() for t in (x, *model.parameters())]

    total, expected = gradients(None)
    assert gradients(point % total)[1] == expected
