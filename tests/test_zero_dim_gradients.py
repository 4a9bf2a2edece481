"""The gradient of a 0-d tensor is an array wherever it is seen (NumPy computes scalars of 0-d)."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import autograd, nn
from gradhook.autograd.graph import register_multi_grad_hook

USES = {
    "broadcast": lambda s, x: (x * s).sum(),
    "broadcast twice": lambda s, x: (x * s + s).sum(),
    "elementwise": lambda s, x: s * s,
    "function": lambda s, x: s.exp(),
    "broadcast and alone": lambda s, x: (x * s).sum() + s,
    "power": lambda s, x: (x**s).sum(),
    "cast": lambda s, x: (x.double() * s.double()).sum(),
    "expand": lambda s, x: s.expand(3).sum(),
    "stack": lambda s, x: gradhook.stack([s, s]).sum(),
    "index": lambda s, x: (x * s.reshape(1)[0]).sum(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_it_can_be_computed_with_wherever_it_is_seen(use):
    x = gradhook.tensor([1.0, 2.0, 3.0])
    s = gradhook.tensor(2.0, requires_grad=True)
    (expected,) = autograd.grad(use(s, x), s)
    value = expected.item()
    assert (expected * 2).item() == pytest.approx(2 * value)
    inner, seen = s * 1, []
    inner.retain_grad()
    for t in (s, inner):
        t.register_hook(lambda g: seen.append(g * 1))
        t.register_hook(lambda g: g * 1)
        register_multi_grad_hook([t], lambda grads: seen.append(grads[0] * 1))
    inner.grad_fn.register_prehook(lambda g: (g[0] * 1,))
    inner.grad_fn.register_hook(lambda g, _: (g[0] * 1, *g[1:]))
    for _ in range(2):
        use(inner, x).backward(retain_graph=True)
        s.grad.mul_(1)
    for g in (s.grad, inner.grad):
        assert (g * 1).item() == pytest.approx(2 * value) and g.shape == ()
    assert len(seen) == 8 and all(g.item() == pytest.approx(value) for g in seen)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_module_hooks_can_compute_with_it(use):
    class Use(nn.Module):
        def forward(self, s, x):
            return use(s, x)

    x, s = gradhook.tensor([1.0, 2.0, 3.0]), gradhook.tensor(2.0, requires_grad=True)
    (expected,) = autograd.grad(use(s, x), s)
    module = Use()
    module.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
    module.register_full_backward_hook(lambda m, g_in, g_out: (g_in[0] * 2, *g_in[1:]))
    module(s, x).backward()
    assert s.grad.item() == pytest.approx(4 * expected.item())


def test_a_learned_scale_accumulates_over_several_backward_runs():
    x, s = gradhook.tensor([1.0, 2.0, 3.0]), nn.Parameter(gradhook.tensor(2.0))
    for _ in range(3):
        (x * s).sum().backward()
    assert s.grad.item() == 18.0
