"""Random models of hooked modules on torch and gradhook: the same events in the same order.

Modules nest, return their inputs, several outputs, constants, or one tensor twice over; their hooks
look or replace. torch gives zeros where gradhook gives None (HOOKS.md D12), so zeros count as None.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import gradhook

torch = pytest.importorskip("torch", reason="differential tests need torch")

KINDS = {
    "product": lambda lib, xs: xs[0] * xs[-1],
    "two": lambda lib, xs: (xs[0].sin(), xs[-1] * xs[0]),
    "identity": lambda lib, xs: xs[0],
    "input and more": lambda lib, xs: (xs[0], xs[-1] * 2),
    "unused input": lambda lib, xs: xs[-1] * 3,
    "detached": lambda lib, xs: (xs[0].detach(), xs[0] * 2),
    "related": lambda lib, xs: (lambda h: (h, h * 2))(xs[0].tanh()),
    "constant": lambda lib, xs: (xs[0] * 2, lib.ones(2, dtype=lib.float64)),
}


def plain(g):
    if g is None or not np.any(g.detach().numpy()):
        return None
    return g.detach().numpy().tolist()


class Model:
    """One random model over one library; the same seed gives the same model over another."""

    def __init__(self, lib, seed):
        self.lib = lib
        self.random = random.Random(seed)
        self.log = []
        self.modules = 0
        values = np.random.default_rng(seed).uniform(0.3, 1.2, (3, 2)).tolist()
        self.leaves = [lib.tensor(v, dtype=lib.float64, requires_grad=True) for v in values]

    def module(self, depth=0):
        """A module of a random kind that may pass its outputs to another one, with random hooks."""
        lib, function = self.lib, KINDS[self.random.choice(sorted(KINDS))]
        number = self.modules
        self.modules += 1
        inner = self.module(depth + 1) if depth < 2 and self.random.random() < 0.4 else None

        class Random(lib.nn.Module):
            def forward(self, *xs):
                out = function(lib, xs)
                if inner is None:
                    return out
                return inner(*(out if isinstance(out, tuple) else (out,)))

        made = Random()
        for _ in range(self.random.choice([0, 1, 1, 2])):
            self.hook(made, number, self.random.random(), self.random.choice([0.5, 2.0, -1.0]))
        return made

    def hook(self, module, number, kind, factor):
        def note(name, *gradients):
            self.log.append((name, number, *[tuple(map(plain, g)) for g in gradients]))

        def scaled(gradients):
            return tuple(None if g is None else g * factor for g in gradients)

        if kind < 0.5:
            module.register_full_backward_hook(lambda m, gi, go: note("full", gi, go))
        elif kind < 0.7:
            module.register_full_backward_hook(lambda m, gi, go: scaled(gi))
        elif kind < 0.85:
            module.register_full_backward_pre_hook(lambda m, go: scaled(go))
        else:
            module.register_full_backward_pre_hook(lambda m, go: note("pre", go))

    def total(self):
        """A scalar that depends on every tensor that the random calls made."""
        pool = list(self.leaves)
        modules = [self.module() for _ in range(self.random.randint(1, 3))]
        for _ in range(self.random.randint(2, 6)):
            if self.random.random() < 0.65:
                chosen = self.random.choice(modules)
                count = self.random.randint(1, 3)
                out = chosen(*[self.random.choice(pool) for _ in range(count)])
                pool.extend(out if isinstance(out, tuple) else (out,))
            else:
                a, b = self.random.choice(pool), self.random.choice(pool)
                pool.append((a * b + a).tanh())
        made = enumerate(pool[3:], 2)
        return sum(((t * k).sum() for k, t in made), pool[0].sum() * 0)

    def first_order(self):
        total = self.total()
        for _ in range(self.random.choice([1, 2])):
            total.backward(retain_graph=True)
        return [plain(x.grad) for x in self.leaves], self.log

    def second_order(self):
        """Of the second run only the gradients: torch pairs its events wrongly (D4)."""
        total, grad = self.total(), self.lib.autograd.grad
        first = grad(total, self.leaves, create_graph=True, allow_unused=True)
        events = list(self.log)
        again = sum(((g * g).sum() for g in first if g is not None and g.requires_grad), total * 0)
        second = grad(again, self.leaves, allow_unused=True)
        return [plain(g) for g in first + second], events


def same(a, b):
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return np.isclose(a, b, rtol=1e-7, atol=1e-9)
    return a == b


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("order", ["first_order", "second_order"])
@pytest.mark.parametrize("block", range(4))
def test_random_hooked_models_have_torchs_events_and_gradients(block, order):
    for seed in range(block * 60, block * 60 + 60):
        expected = getattr(Model(torch, seed), order)()
        found = getattr(Model(gradhook, seed), order)()
        assert same(found[1], expected[1]), f"events of seed {seed}"
        assert same(found[0], expected[0]), f"gradients of seed {seed}"
