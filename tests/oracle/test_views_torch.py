"""Random programs of views and in-place writes, run in step on torch and gradhook: same values, refusals, gradients."""

from __future__ import annotations

import random

import numpy as np
import pytest

import gradhook

torch = pytest.importorskip("torch", reason="differential tests need torch")

SHAPES = [(), (3,), (2, 3), (3, 2), (2, 1, 3), (4, 3)]


def first_words(error):
    """The kind of refusal: PyTorch's sentence up to where texts may differ."""
    text = str(error)
    known = (
        "a leaf Variable that requires grad is being used in an in-place",
        "a view of a leaf Variable that requires grad is being used in an in-place",
        "unsupported operation",
        "A view was created in no_grad mode",
        "is a view and is being modified inplace",
        "modified by an inplace operation",
        "does not require grad",
    )
    return next((k for k in known if k in text), text)


class Lockstep:
    """One program: registers hold pairs (torch tensor, gradhook tensor); each step runs on both and is compared."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.registers = []
        self.leaves = []
        self.trace = []

    def both(self, text, step, *places):
        """step(library, *tensors) on each side. Returns the pair, or None when both refuse alike."""
        self.trace.append(text)
        results, errors = [], []
        for side, library in enumerate((torch, gradhook)):
            try:
                results.append(step(library, *[self.registers[p][side] for p in places]))
                errors.append(None)
            except (RuntimeError, IndexError) as error:
                results.append(None)
                errors.append(first_words(error))
        assert errors[0] == errors[1], self.told(f"torch: {errors[0]}; gradhook: {errors[1]}")
        return None if errors[0] else tuple(results)

    def told(self, what):
        return what + "\n" + "\n".join(self.trace)

    def keep(self, pair):
        if pair is None:
            return
        if any(pair[0] is p[0] for p in self.registers):
            assert any(pair[1] is p[1] for p in self.registers), self.told("another object came back")
            return
        self.registers.append(pair)
        self.trace[-1] = f"r{len(self.registers) - 1} = {self.trace[-1]}"
        self.compare(len(self.registers) - 1)

    def compare(self, place):
        a, b = self.registers[place]
        assert tuple(a.shape) == tuple(b.shape), self.told(f"shapes of r{place}")
        np.testing.assert_allclose(
            b.detach().numpy(), a.detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=self.told(f"values of r{place}")
        )
        assert a.requires_grad == b.requires_grad, self.told(
            f"requires_grad of r{place}: torch {a.requires_grad}, gradhook {b.requires_grad}"
        )
        assert a.is_leaf == b.is_leaf, self.told(f"is_leaf of r{place}: torch {a.is_leaf}")
        assert a._version == b._version, self.told(f"_version of r{place}: torch {a._version}, gradhook {b._version}")

    # ---- instructions
    def make(self):
        data = self.numbers.uniform(0.2, 1.5, self.rng.choice(SHAPES))
        needs = self.rng.random() < 0.6
        fortran = self.rng.random() < 0.2

        def step(library):
            t = library.tensor(data.tolist(), dtype=library.float64)
            if fortran and t.ndim == 2:
                t = library.tensor(data.T.tolist(), dtype=library.float64).t()
            return t.requires_grad_() if needs else t

        self.keep(self.both(f"tensor{data.shape} needs={needs} fortran={fortran}", step))
        if needs:
            self.leaves.append(len(self.registers) - 1)

    def pick(self):
        return self.rng.randrange(len(self.registers))

    def compute(self):
        p = self.pick()
        name = self.rng.choice(["mul", "sin", "square", "clone", "exp", "detach", "contiguous"])
        steps = {
            "mul": lambda lib, t: t * 0.5,
            "sin": lambda lib, t: t.sin(),
            "square": lambda lib, t: t * t,
            "clone": lambda lib, t: t.clone(),
            "exp": lambda lib, t: (t * 0.1).exp(),
            "detach": lambda lib, t: t.detach(),
            "contiguous": lambda lib, t: t.contiguous(),
        }
        self.keep(self.both(f"{name}(r{p})", steps[name], p))

    def view(self):
        p = self.pick()
        t = self.registers[p][0]
        shape, rng = tuple(t.shape), self.rng
        options = [("unsqueeze(0)", lambda lib, t: t.unsqueeze(0)), ("view_as", lambda lib, t: t.view_as(t))]
        if shape:
            d = rng.randrange(len(shape))
            i = rng.randrange(shape[d]) if shape[d] else 0
            options += [
                (f"select({d}, {i})", lambda lib, t: t.select(d, i)),
                (f"narrow({d}, 0, {max(1, shape[d] - 1)})", lambda lib, t: t.narrow(d, 0, max(1, shape[d] - 1))),
                ("[::2]", lambda lib, t: t[::2]),
                ("[1:]", lambda lib, t: t[1:]),
                ("[..., 0]", lambda lib, t: t[..., 0]),
                (f"unbind({d})[0]", lambda lib, t: t.unbind(d)[0]),
                (f"split(1, {d})[-1]", lambda lib, t: t.split(1, d)[-1]),
                ("reshape(-1)", lambda lib, t: t.reshape(-1)),
                ("squeeze", lambda lib, t: t.squeeze()),
                ("expand", lambda lib, t: t.expand(2, *shape)),
            ]
        if len(shape) == 2:
            options += [("t()", lambda lib, t: t.t()), ("diagonal", lambda lib, t: t.diagonal())]
        if len(shape) >= 2:
            options += [
                ("transpose(0, -1)", lambda lib, t: t.transpose(0, -1)),
                ("flatten", lambda lib, t: t.flatten()),
            ]
        name, step = rng.choice(options)
        self.keep(self.both(f"r{p}.{name}", step, p))

    def write(self):
        p, q = self.pick(), self.pick()
        shape = tuple(self.registers[p][0].shape)
        like = [k for k, r in enumerate(self.registers) if k != p and _fits(tuple(r[0].shape), shape)]
        q = self.rng.choice(like) if like else None
        mask = self.numbers.random(shape) < 0.5
        simple = {
            "add_(1)": lambda t: t.add_(1.0),
            "mul_(0.7)": lambda t: t.mul_(0.7),
            "sin_()": lambda t: t.sin_(),
            "zero_()": lambda t: t.zero_(),
            "fill_(2)": lambda t: t.fill_(2.0),
            "sigmoid_()": lambda t: t.sigmoid_(),
        }
        kind = self.rng.choice(["simple", "simple", "masked", "other", "other", "set"])
        if kind == "masked":
            text = f"r{p}.masked_fill_(mask, 0.3)"
            pair = self.both(text, lambda lib, t: t.masked_fill_(lib.tensor(mask.tolist()), 0.3), p)
        elif kind == "other" and q is not None:
            name = self.rng.choice(["add_", "mul_", "copy_", "sub_"])
            pair = self.both(f"r{p}.{name}(r{q})", lambda lib, t, o: getattr(t, name)(o), p, q)
        elif kind == "set" and shape:
            pair = self.assign(p, q, shape)
        else:
            name = self.rng.choice(sorted(simple))
            pair = self.both(f"r{p}.{name}", lambda lib, t: simple[name](t), p)
        for place in range(len(self.registers)):
            self.compare(place)
        if pair is not None:
            for place, side in ((p, 0), (p, 1)):
                assert pair[side] is self.registers[place][side], self.told("an in-place op returns its target")

    def assign(self, p, q, shape):
        n = self.rng.randrange(shape[0])
        rows = [self.rng.randrange(shape[0]), n] if n == 0 else [n, 0]
        rows = sorted(set(rows))
        index, text = self.rng.choice(
            [(lambda lib: n, f"{n}"), (lambda lib: slice(n, None), f"{n}:"), (lambda lib: lib.tensor(rows), f"{rows}")]
        )
        value = q if q is not None and tuple(self.registers[q][0].shape) in ((), shape[1:]) else None

        def step(lib, t, *v):
            t[index(lib)] = v[0] if v else 0.25
            return t

        places = (p,) if value is None else (p, value)
        return self.both(f"r{p}[{text}] = {'0.25' if value is None else f'r{value}'}", step, *places)

    def within_no_grad(self, action):
        self.trace.append("with no_grad:")
        with torch.no_grad(), gradhook.no_grad():
            action()

    def differentiate(self, create_graph):
        """Gradients of all that requires grad for all leaves; with create_graph again of their squares."""
        self.trace.append(f"gradients, create_graph={create_graph}")
        roots = [k for k, r in enumerate(self.registers) if r[0].requires_grad]
        if not roots or not self.leaves:
            return
        leaves = [k for k in self.leaves]

        def step(lib, *tensors):
            total = sum(((t * (k + 1.5)).sin().sum() for k, t in enumerate(tensors[: len(roots)])), 0.0)
            inputs = tensors[len(roots) :]
            grads = lib.autograd.grad(total, inputs, create_graph=create_graph, allow_unused=True)
            if create_graph:
                again = sum(((g * g).sum() for g in grads if g is not None and g.requires_grad), total * 0)
                grads = grads + lib.autograd.grad(again, inputs, allow_unused=True)
            return grads

        pair = self.both("grad", step, *roots, *leaves)
        if pair is None:
            return
        for k, (a, b) in enumerate(zip(*pair, strict=True)):
            assert (a is None) == (b is None), self.told(f"gradient {k}: torch {a}, gradhook {b}")
            if a is not None:
                np.testing.assert_allclose(
                    b.detach().numpy(),
                    a.detach().numpy(),
                    rtol=1e-7,
                    atol=1e-9,
                    err_msg=self.told(f"gradient {k} of leaves {leaves}"),
                )

    def run(self, steps, create_graph):
        self.make()
        for _ in range(steps):
            action = self.rng.choices(
                [self.make, self.compute, self.view, self.write], weights=[1, 2, 4, 4]
            )[0]
            if self.rng.random() < 0.08:
                self.within_no_grad(action)
            else:
                action()
        self.differentiate(create_graph)


def _fits(shape, target):
    """Whether shape broadcasts to target."""
    if len(shape) > len(target):
        return False
    return all(a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False))


@pytest.mark.parametrize("create_graph", [False, True], ids=["first_order", "second_order"])
@pytest.mark.parametrize("block", range(10))
def test_programs_of_views_and_writes_give_what_torch_gives(block, create_graph):
    for seed in range(block * 30, block * 30 + 30):
        Lockstep(seed).run(steps=4 + seed % 14, create_graph=create_graph)
