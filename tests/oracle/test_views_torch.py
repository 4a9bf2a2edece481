"""Random programs of views and in-place writes, run in step on torch and gradhook.

Values, versions, refusals and gradients of first and second order must be the same.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import gradhook
from gradhook.memory import has_internal_overlap

torch = pytest.importorskip("torch", reason="differential tests need torch")

SHAPES = [(), (3,), (2, 3), (3, 2), (2, 1, 3), (4, 3)]


LEAF = "leaf Variable that requires grad is being used in an in-place"
STALE = "modified by an inplace operation"
# Deviations: source and target of a write may share memory, as if they did not; a view of several
# follows its base; what an in-place op needs of its own result is kept when that is written again;
# and torch takes a stale view for a leaf.
RIGHT_WHERE_TORCH_REFUSES = (
    "unsupported operation",
    "its base or another view of its base has been modified inplace",
    STALE,
)


def first_words(error):
    """The kind of refusal: PyTorch's sentence up to where texts may differ."""
    text = str(error)
    if "its base or another view of its base has been modified inplace" in text:
        return RIGHT_WHERE_TORCH_REFUSES[1]
    if (
        "A view was created in no_grad mode" in text
        or "is a view and is being modified inplace" in text
    ):
        return "the view must not be written"
    known = (
        LEAF,
        "out of bounds",
        "unsupported operation",
        STALE,
        "does not require grad",
    )
    return next((k for k in known if k in text), text)


class Step(gradhook.nn.Module):
    """One step as a module with hooks that only look, so that it runs between two barriers."""

    def __init__(self, step):
        super().__init__()
        self.step = step
        self.register_full_backward_pre_hook(lambda module, grad_output: None)
        self.register_full_backward_hook(lambda module, grad_input, grad_output: None)

    def forward(self, library, *tensors):
        return self.step(library, *tensors)


class Lockstep:
    """One program over registers, each a pair (torch tensor, gradhook tensor).

    curious: requires_grad is asked after each step, which brings stale views up to date.
    """

    def __init__(self, seed, curious, hooked=False):
        self.hooked = hooked
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.registers = []
        self.curious = curious
        self.over = False
        self.leaves = []
        self.trace = []

    def both(self, text, step, *places):
        """step(library, *tensors) on each side: a pair, or None when both refuse alike."""
        self.trace.append(text)
        results, errors = [], []
        for side, library in enumerate((torch, gradhook)):
            run = Step(step) if side and self.hooked and text[0] == "r" else step
            try:
                results.append(run(library, *[self.registers[p][side] for p in places]))
                errors.append(None)
            except (RuntimeError, IndexError) as error:
                results.append(None)
                errors.append(first_words(error))
        refused = RIGHT_WHERE_TORCH_REFUSES + (() if self.curious else (LEAF,))
        if errors[0] in refused and errors[0] != errors[1]:
            self.over = True
            return None
        assert errors[0] == errors[1], self.told(f"torch: {errors[0]}; gradhook: {errors[1]}")
        return None if errors[0] else tuple(results)

    def told(self, what):
        return what + "\n" + "\n".join(self.trace)

    def keep(self, pair):
        if pair is None:
            return
        if any(pair[0] is p[0] for p in self.registers):
            known = self.hooked or any(pair[1] is p[1] for p in self.registers)
            assert known, self.told("another object came back")
            return
        self.registers.append(pair)
        self.trace[-1] = f"r{len(self.registers) - 1} = {self.trace[-1]}"
        self.compare(len(self.registers) - 1)

    def compare(self, place):
        a, b = self.registers[place]
        assert tuple(a.shape) == tuple(b.shape), self.told(f"shapes of r{place}")
        np.testing.assert_allclose(
            b.detach().numpy(),
            a.detach().numpy(),
            rtol=1e-9,
            atol=1e-9,
            err_msg=self.told(f"values of r{place}"),
        )
        assert a._version == b._version, self.told(
            f"_version of r{place}: torch {a._version}, gradhook {b._version}"
        )
        if not self.curious:
            return
        try:
            expected = (a.requires_grad, a.is_leaf)
        except RuntimeError as error:
            assert first_words(error) in RIGHT_WHERE_TORCH_REFUSES, self.told(str(error))
            self.over = True
            return
        found = (b.requires_grad, b.is_leaf)
        assert found == expected, self.told(
            f"(requires_grad, is_leaf) of r{place}: torch {expected}, gradhook {found}"
        )

    # ---- instructions
    def make(self):
        data = self.numbers.uniform(0.2, 1.5, self.rng.choice(SHAPES))
        needs = self.rng.random() < 0.6
        fortran = self.rng.random() < 0.2

        def step(library):
            t = library.from_numpy(np.array(data, order="F" if fortran else "C"))
            return t.requires_grad_() if needs else t

        self.keep(self.both(f"tensor{data.shape} needs={needs} fortran={fortran}", step))
        if needs:
            self.leaves.append(len(self.registers) - 1)

    def pick(self):
        return self.rng.randrange(len(self.registers))

    def compute(self):
        p = self.pick()
        name = self.rng.choice(["mul", "sin", "square", "clone", "exp", "detach", "contiguous"])
        if has_internal_overlap(self.registers[p][1]._a):
            name = "mul"
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
        options = [
            ("unsqueeze(0)", lambda lib, t: t.unsqueeze(0)),
            ("view_as", lambda lib, t: t.view_as(t)),
        ]
        if shape:
            d = rng.randrange(len(shape))
            i = rng.randrange(shape[d]) if shape[d] else 0
            options += [
                (f"select({d}, {i})", lambda lib, t: t.select(d, i)),
                (
                    f"narrow({d}, 0, {max(1, shape[d] - 1)})",
                    lambda lib, t: t.narrow(d, 0, max(1, shape[d] - 1)),
                ),
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
        like = [k for k, r in enumerate(self.registers) if _usable(r, self.registers[p])]
        q = self.rng.choice(like) if like else None
        mask = np.asarray(self.numbers.random(shape) < 0.5)
        simple = {
            "add_(1)": lambda t: t.add_(1.0),
            "mul_(0.7)": lambda t: t.mul_(0.7),
            "sin_()": lambda t: t.sin_(),
            "zero_()": lambda t: t.zero_(),
            "fill_(2)": lambda t: t.fill_(2.0),
            "sigmoid_()": lambda t: t.sigmoid_(),
        }
        kind = self.rng.choice(["simple", "simple", "masked", "other", "other", "set"])
        if has_internal_overlap(self.registers[p][1]._a):  # deviation: torch only warns, or fills
            kind, simple = "simple", {"add_(1)": simple["add_(1)"]}
        if kind == "masked":
            text = f"r{p}.masked_fill_(mask, 0.3)"
            pair = self.both(text, lambda lib, t: t.masked_fill_(lib.from_numpy(mask), 0.3), p)
        elif kind == "other" and q is not None:
            name = self.rng.choice(["add_", "mul_", "copy_", "sub_"])
            if name == "copy_" and same_memory(*(self.registers[k][1]._a for k in (p, q))):
                name = "add_"  # deviation: torch does not count a copy onto itself as a write
            pair = self.both(f"r{p}.{name}(r{q})", lambda lib, t, o: getattr(t, name)(o), p, q)
        elif kind == "set" and shape and shape[0]:
            pair = self.assign(p, q, shape)
        else:
            name = self.rng.choice(sorted(simple))
            pair = self.both(f"r{p}.{name}", lambda lib, t: simple[name](t), p)
        if self.over:
            return
        for place in range(len(self.registers)):
            self.compare(place)
        if pair is not None:
            for place, side in ((p, 0), (p, 1)):
                known = (side and self.hooked) or pair[side] is self.registers[place][side]
                assert known, self.told("an in-place op returns its target")

    def assign(self, p, q, shape):
        n = self.rng.randrange(shape[0])
        rows = [self.rng.randrange(shape[0]), n] if n == 0 else [n, 0]
        rows = sorted(set(rows))
        index, text = self.rng.choice(
            [
                (lambda lib: n, f"{n}"),
                (lambda lib: slice(n, None), f"{n}:"),
                (lambda lib: lib.tensor(rows), f"{rows}"),
            ]
        )
        value = (
            q if q is not None and tuple(self.registers[q][0].shape) in ((), shape[1:]) else None
        )

        def step(lib, t, *v):
            t[index(lib)] = v[0] if v else 0.25
            return t

        places = (p,) if value is None else (p, value)
        return self.both(
            f"r{p}[{text}] = {'0.25' if value is None else f'r{value}'}", step, *places
        )

    def within_no_grad(self, action):
        self.trace.append("with no_grad:")
        with torch.no_grad(), gradhook.no_grad():
            action()

    def differentiate(self, create_graph):
        """Gradients of everything for all leaves; create_graph: of their squares, too."""
        self.trace.append(f"gradients, create_graph={create_graph}")
        roots = [k for k, r in enumerate(self.registers) if r[0].requires_grad]
        if not roots or not self.leaves:
            return
        leaves = [k for k in self.leaves]

        def step(lib, *tensors):
            total = sum(
                ((t * (k + 1.5)).sin().sum() for k, t in enumerate(tensors[: len(roots)])), 0.0
            )
            inputs = tensors[len(roots) :]
            grads = lib.autograd.grad(total, inputs, create_graph=create_graph, allow_unused=True)
            if create_graph:
                again = sum(
                    ((g * g).sum() for g in grads if g is not None and g.requires_grad), total * 0
                )
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
            if self.rng.random() < 0.08 and action in (
                self.compute,
                self.write,
            ):  # deviation: views made there
                self.within_no_grad(action)
            else:
                action()
            if self.over:
                return
        self.differentiate(create_graph)


def same_memory(a, b):
    return a.__array_interface__["data"] == b.__array_interface__["data"]


def _usable(source, target):
    """Whether source may be written into target: it is the same memory, or no part of it."""
    a, b = source[1]._a, target[1]._a
    same = same_memory(a, b) and a.shape == b.shape and a.strides == b.strides and a is not b
    return _fits(a.shape, b.shape) and (same or not np.may_share_memory(a, b))


def _fits(shape, target):
    """Whether shape broadcasts to target."""
    if len(shape) > len(target):
        return False
    return all(a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False))


@pytest.mark.parametrize("create_graph", [False, True], ids=["first_order", "second_order"])
@pytest.mark.parametrize("block", range(4))
def test_programs_of_views_and_writes_give_what_torch_gives(block, create_graph):
    for seed in range(block * 80, block * 80 + 80):
        Lockstep(seed, curious=True).run(steps=4 + seed % 14, create_graph=create_graph)


@pytest.mark.parametrize("block", [0, 3])
def test_so_do_programs_that_ask_for_nothing_in_between(block):
    for seed in range(block * 80, block * 80 + 80):
        Lockstep(seed, curious=False).run(steps=4 + seed % 14, create_graph=False)


@pytest.mark.parametrize("block", range(2))
def test_so_do_programs_whose_every_step_is_a_hooked_module(block):
    for seed in range(block * 80, block * 80 + 80):
        steps = Lockstep(seed, curious=True, hooked=True)
        steps.run(steps=4 + seed % 14, create_graph=bool(seed % 2))
