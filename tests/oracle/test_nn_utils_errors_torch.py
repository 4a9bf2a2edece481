"""Wrong uses of nn.utils and func: PyTorch's class of error and its first sentence."""

from __future__ import annotations

import importlib
import re
import warnings

import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402


class Own:
    """Parametrizations of one library."""

    def __init__(self, lib):
        class Shaped(lib.nn.Module):
            def __init__(self, forward, inverse=None):
                super().__init__()
                self.made = forward
                if inverse is not None:
                    self.right_inverse = inverse

            def forward(self, *args):
                return self.made(*args)

        self.lib, self.n, self.u = lib, lib.nn, lib.nn.utils
        self.P, self.Z = lib.nn.utils.parametrize, lib.nn.utils.parametrizations
        self.prune = importlib.import_module(f"{lib.__name__}.nn.utils.prune")
        self.shaped = Shaped
        self.linear = lib.nn.Linear(2, 3)

    def register(self, *args, first=None):
        if first is not None:
            self.P.register_parametrization(self.linear, "weight", first)
        self.P.register_parametrization(self.linear, "weight", self.shaped(*args))


def same(x):
    return x


ERRORS = {
    "no tensor": lambda o: o.register(lambda x: 2),
    "dtype": lambda o: o.register(lambda x: x.double()),
    "shape": lambda o: o.register(lambda x: x[:1]),
    "inverse of no tensors": lambda o: o.register(same, lambda x: None),
    "inverse of some tensors": lambda o: o.register(same, lambda x: (x, None)),
    "inverse of another dtype": lambda o: o.register(same, lambda x: x.double()),
    "further no tensor": lambda o: o.register(lambda x: (x, x), first=o.shaped(same)),
    "further dtype": lambda o: o.register(lambda x: x.double(), first=o.shaped(same)),
    "further shape": lambda o: o.register(lambda x: x[:1], first=o.shaped(same)),
    "further inverse": lambda o: o.register(same, lambda x: (x, x), first=o.shaped(same)),
    "further inverse dtype": lambda o: o.register(same, lambda x: x.double(), first=o.shaped(same)),
    "further inverse shape": lambda o: o.register(same, lambda x: x[:1], first=o.shaped(same)),
    "unknown tensor": lambda o: o.P.register_parametrization(o.linear, "a", o.shaped(same)),
    "not parametrized": lambda o: o.P.remove_parametrizations(o.linear, "weight"),
    "several originals": lambda o: o.P.remove_parametrizations(
        o.Z.weight_norm(o.linear), "weight", leave_parametrized=False
    ),
    "no right_inverse": lambda o: (
        o.register(same),
        setattr(o.linear, "weight", o.lib.ones(3, 2)),
    ),
    "empty list": lambda o: o.P.ParametrizationList([], o.linear.weight),
    "assigned parameter": lambda o: setattr(
        o.Z.weight_norm(o.linear), "weight", o.n.Parameter(o.lib.ones(3, 2))
    ),
    "spectral_norm name": lambda o: o.Z.spectral_norm(o.linear, "a"),
    "spectral_norm dim": lambda o: o.Z.spectral_norm(o.linear, dim=2),
    "spectral_norm steps": lambda o: o.Z.spectral_norm(o.linear, n_power_iterations=0),
    "orthogonal name": lambda o: o.Z.orthogonal(o.linear, "a"),
    "orthogonal map": lambda o: o.Z.orthogonal(o.linear, orthogonal_map="polar"),
    "orthogonal vector": lambda o: o.Z.orthogonal(o.linear, "bias"),
    "orthogonal shape": lambda o: setattr(o.Z.orthogonal(o.linear), "weight", o.lib.ones(2, 2)),
    "orthogonal assigned": lambda o: setattr(
        o.Z.orthogonal(o.linear, orthogonal_map="cayley", use_trivialization=False),
        "weight",
        o.lib.ones(3, 2),
    ),
    "orthogonal complex": lambda o: o.Z.orthogonal(
        o.n.Linear(2, 2, dtype=o.lib.complex64), orthogonal_map="householder"
    ),
    "weight_norm twice": lambda o: o.u.weight_norm(o.u.weight_norm(o.linear)),
    "no weight_norm": lambda o: o.u.remove_weight_norm(o.linear),
    "spectral_norm twice": lambda o: o.u.spectral_norm(o.u.spectral_norm(o.linear)),
    "no spectral_norm": lambda o: o.u.remove_spectral_norm(o.linear),
    "older spectral_norm steps": lambda o: o.u.spectral_norm(o.linear, "weight", 0),
    "older spectral_norm name": lambda o: o.u.spectral_norm(o.linear, "a"),
    "amount text": lambda o: o.prune.l1_unstructured(o.linear, "weight", "1"),
    "amount above one": lambda o: o.prune.l1_unstructured(o.linear, "weight", 1.5),
    "amount negative": lambda o: o.prune.random_structured(o.linear, "weight", -1, 0),
    "amount too large": lambda o: o.prune.l1_unstructured(o.linear, "weight", 100),
    "channels of a vector": lambda o: o.prune.ln_structured(o.linear, "bias", 1, 2, 0),
    "channels of no dim": lambda o: o.prune.ln_structured(o.linear, "weight", 1, 2, 2),
    "mask": lambda o: o.prune.custom_from_mask(o.linear, "weight", o.lib.ones(2)),
    "not pruned": lambda o: o.prune.remove(o.linear, "weight"),
    "no method": lambda o: o.prune.PruningContainer().add_pruning_method(1),
    "global structured": lambda o: o.prune.global_unstructured(
        [(o.linear, "weight")], o.prune.RandomStructured, amount=1
    ),
    "global of nothing": lambda o: o.prune.global_unstructured(1, o.prune.L1Unstructured),
    "global scores": lambda o: o.prune.global_unstructured([], o.prune.L1Unstructured, [1]),
    "fuse training": lambda o: o.u.fuse_conv_bn_eval(o.n.Conv1d(1, 1, 1), o.n.BatchNorm1d(1)),
    "fuse features": lambda o: o.u.fuse_linear_bn_eval(o.linear.eval(), o.n.BatchNorm1d(2).eval()),
    "skip_init kind": lambda o: o.u.skip_init(int),
    "skip_init device": lambda o: o.u.skip_init(o.n.ReLU),
    "call strict": lambda o: o.lib.func.functional_call(
        o.linear, {"a": o.lib.ones(1)}, (), strict=True
    ),
    "call no dict": lambda o: o.lib.func.functional_call(o.linear, 3),
    "call no dicts": lambda o: o.lib.func.functional_call(o.linear, (3,)),
    "call repeated": lambda o: o.lib.func.functional_call(o.linear, ({"a": 1}, {"a": 2})),
    "call no tensor": lambda o: o.lib.func.functional_call(o.linear, {"weight": 1}),
    "call no module": lambda o: o.lib.func.functional_call(o.linear, {"a.b": None}),
    "call attribute": lambda o: o.lib.func.functional_call(o.linear, {"training": None}),
    "call no name": lambda o: o.lib.func.functional_call(o.linear, {"": None}),
    "stack nothing": lambda o: o.lib.func.stack_module_state([]),
    "stack modes": lambda o: o.lib.func.stack_module_state([o.n.ReLU(), o.n.ReLU().eval()]),
    "stack classes": lambda o: o.lib.func.stack_module_state([o.n.ReLU(), o.n.Tanh()]),
    "pickled": lambda o: o.Z.weight_norm(o.linear).__getstate__(),
    "vector": lambda o: o.u.vector_to_parameters([1.0], []),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_pytorch_s_class_and_first_sentence(name):
    said = []
    for lib in (gradhook, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Exception) as error:
                ERRORS[name](Own(lib))
        text = re.sub(r"\b(gradhook|torch)\.", "", str(error.value))
        text = re.sub(r"nn\.utils\.pruning(_methods)?\.", "nn.utils.prune.", text)
        text = re.sub(r"object at 0x\w+|nn\.modules\.\w+\.|nn\.Module|nn\.module\.", "", text)
        said.append((error.type.__name__, re.split(r"(?<=[a-z\]\)])\. ", text)[0]))
    assert said[0] == said[1]
