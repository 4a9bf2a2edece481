"""nn.utils and func.functional_call against PyTorch: names, signatures, states both ways, values,
gradients, errors.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TypeVar

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
SPACES = "parametrize parametrizations prune fusion stateless weight_norm spectral_norm".split()


def space_of(lib, name):
    return importlib.import_module(f"{lib.__name__}.nn.utils.{name}")


# ---- names and signatures


def public():
    yield from ((f"nn.utils.{name}", name) for name in torch.nn.utils.__all__)
    for name in SPACES:
        space = space_of(torch, name)
        for member, value in vars(space).items():
            own = getattr(value, "__module__", "") == space.__name__
            if own and member[0] != "_" and not isinstance(value, TypeVar):
                yield f"nn.utils.{name}", member
    yield from (("func", name) for name in ("functional_call", "stack_module_state"))


ABSENT = {"convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"}
PUBLIC = sorted(set(public()))


@pytest.mark.parametrize(("home", "name"), PUBLIC)
def test_every_public_name_is_there_with_pytorch_s_parameters(home, name):
    if home.startswith("nn.utils.") and home.rpartition(".")[2] == name:
        home = "nn.utils"
    if name in ABSENT:
        pytest.skip("there are no memory formats")
    theirs = getattr(importlib.import_module(f"torch.{home}"), name)
    ours = getattr(importlib.import_module(f"gradhook.{home}"), name)
    if inspect.ismodule(theirs):
        assert inspect.ismodule(ours)
        return
    assert parameters(ours) == parameters(theirs)
    if inspect.isclass(theirs):
        for method in vars(theirs):
            if callable(getattr(theirs, method)) and (method[0] != "_" or method == "__call__"):
                assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method))


def parameters(function):
    return [
        (p.name, p.kind, p.default)
        for p in inspect.signature(function).parameters.values()
        if p.name != "self"
    ]


# ---- modules: states, values, gradients


def changed(module, change):
    change(module)
    return module


MODULES = {
    "weight_norm": lambda n, u: u.parametrizations.weight_norm(n.Linear(3, 4)),
    "weight_norm 1": lambda n, u: u.parametrizations.weight_norm(n.Linear(3, 4), dim=1),
    "weight_norm of all": lambda n, u: u.parametrizations.weight_norm(n.Linear(3, 4), dim=None),
    "weight_norm conv": lambda n, u: u.parametrizations.weight_norm(n.Conv1d(3, 4, 2), dim=2),
    "weight_norm negative": lambda n, u: u.parametrizations.weight_norm(n.Conv1d(3, 4, 2), dim=-2),
    "weight_norm bias": lambda n, u: u.parametrizations.weight_norm(n.Linear(3, 4), "bias"),
    "spectral_norm": lambda n, u: u.parametrizations.spectral_norm(n.Linear(3, 4)),
    "spectral_norm steps": lambda n, u: u.parametrizations.spectral_norm(
        n.Linear(3, 4), "weight", 3
    ),
    "spectral_norm conv": lambda n, u: u.parametrizations.spectral_norm(n.Conv1d(3, 4, 2), dim=-1),
    "spectral_norm transposed": lambda n, u: u.parametrizations.spectral_norm(
        n.ConvTranspose1d(3, 4, 2)
    ),
    "spectral_norm bias": lambda n, u: u.parametrizations.spectral_norm(n.Linear(3, 4), "bias"),
    "orthogonal": lambda n, u: u.parametrizations.orthogonal(n.Linear(3, 3)),
    "orthogonal wide": lambda n, u: u.parametrizations.orthogonal(n.Linear(3, 2)),
    "orthogonal exp": lambda n, u: u.parametrizations.orthogonal(
        n.Linear(3, 4), "weight", "matrix_exp"
    ),
    "orthogonal cayley": lambda n, u: u.parametrizations.orthogonal(
        n.Linear(3, 4), orthogonal_map="cayley", use_trivialization=False
    ),
    "orthogonal householder": lambda n, u: u.parametrizations.orthogonal(
        n.Linear(3, 4), use_trivialization=False
    ),
    "orthogonal conv": lambda n, u: u.parametrizations.orthogonal(n.Conv1d(3, 4, 2)),
    "two": lambda n, u: u.parametrizations.weight_norm(
        u.parametrizations.spectral_norm(n.Linear(3, 4)), "bias"
    ),
    "chained": lambda n, u: u.parametrizations.spectral_norm(
        u.parametrizations.weight_norm(n.Linear(3, 4))
    ),
    "older weight_norm": lambda n, u: u.weight_norm(n.Linear(3, 4)),
    "older weight_norm of all": lambda n, u: u.weight_norm(n.Conv1d(3, 4, 2), dim=None),
    "older weight_norm 1": lambda n, u: u.weight_norm(n.Conv1d(3, 4, 2), "weight", 1),
    "older spectral_norm": lambda n, u: u.spectral_norm(n.Linear(3, 4)),
    "older spectral_norm conv": lambda n, u: u.spectral_norm(n.Conv1d(3, 4, 2), dim=1),
    "older spectral_norm transposed": lambda n, u: u.spectral_norm(
        n.ConvTranspose1d(3, 4, 2), n_power_iterations=2
    ),
    "pruned": lambda n, u: u.prune.l1_unstructured(n.Linear(3, 4), "weight", 0.4),
    "pruned channels": lambda n, u: u.prune.ln_structured(n.Conv1d(3, 4, 2), "weight", 1, 2, 1),
    "pruned twice": lambda n, u: u.prune.l1_unstructured(
        u.prune.ln_structured(n.Linear(3, 4), "weight", 1, 1, 0), "weight", 3
    ),
    "pruned at random": lambda n, u: u.prune.random_structured(n.Linear(3, 4), "weight", 1, 0),
    "pruned and normed": lambda n, u: u.weight_norm(
        u.prune.l1_unstructured(n.Linear(3, 4), "bias", 2), "weight"
    ),
}


def made(lib, name):
    importlib.import_module(f"{lib.__name__}.nn.utils.prune")
    lib.manual_seed(0)
    return MODULES[name](lib.nn, lib.nn.utils).to(lib.float64)


def taken(lib, state):
    """A state dict of the other library's as one of this library's, with its metadata."""
    moved = type(state)((k, lib.tensor(v.detach().numpy())) for k, v in state.items())
    moved._metadata = state._metadata
    return moved


def values(tensors):
    return {k: v.detach().numpy() for k, v in tensors.items()}


def assert_same(ours, theirs):
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-8, atol=1e-9, err_msg=name)


def run(lib, module, x):
    """Two forwards in training, one in evaluation, one backward; what came out."""
    module.zero_grad()
    x = lib.tensor(x, requires_grad=True)
    outs = [module.train()(x), module(x * 2), module.eval()(x)]
    sum((out * out).sum() for out in outs).backward()
    found = {str(i): out for i, out in enumerate(outs)} | {"x": x.grad}
    grads = {f"{k}.grad": p.grad for k, p in module.named_parameters() if p.grad is not None}
    return values(found | grads | dict(module.state_dict()))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_goes_over_with_its_state_and_learns_alike(name):
    theirs, ours = made(torch, name), made(gradhook, name)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    ours.load_state_dict(taken(gradhook, theirs.state_dict()))
    x = np.random.default_rng(0).normal(size=(5, 3, 4) if "onv" in repr(theirs) else (5, 3))
    assert_same(run(gradhook, ours, x), run(torch, theirs, x))
    again = made(torch, name)
    again.load_state_dict(taken(torch, ours.state_dict()))
    assert_same(run(gradhook, ours, x), run(torch, again, x))


# ---- what registration makes of given weights

REGISTERED = {
    "weight_norm": lambda m, u: u.parametrizations.weight_norm(m),
    "weight_norm 1": lambda m, u: u.parametrizations.weight_norm(m, dim=1),
    "householder": lambda m, u: u.parametrizations.orthogonal(m, use_trivialization=False),
    "older weight_norm": lambda m, u: u.weight_norm(m, dim=None),
    "l1": lambda m, u: u.prune.l1_unstructured(m, "weight", 0.3),
    "ln": lambda m, u: u.prune.ln_structured(m, "weight", 0.5, float("inf"), -1),
    "nuclear": lambda m, u: u.prune.ln_structured(m, "weight", 1, 1, 0),
    "identity": lambda m, u: u.prune.identity(m, "bias"),
    "global": lambda m, u: changed(
        m,
        lambda m: u.prune.global_unstructured(
            [(m, "weight"), (m, "bias")], u.prune.L1Unstructured, amount=0.5
        ),
    ),
    "removed": lambda m, u: u.parametrize.remove_parametrizations(
        u.parametrizations.weight_norm(m), "weight"
    ),
    "removed older": lambda m, u: u.remove_weight_norm(u.weight_norm(m)),
    "removed pruning": lambda m, u: u.prune.remove(
        u.prune.l1_unstructured(m, "weight", 4), "weight"
    ),
}


@pytest.mark.parametrize("name", REGISTERED)
def test_registration_makes_the_same_of_the_same_weights(name):
    rng = np.random.default_rng(1)
    weight, bias = rng.normal(size=(4, 3)), rng.normal(size=4)
    states = []
    for lib in (gradhook, torch):
        importlib.import_module(f"{lib.__name__}.nn.utils.prune")
        module = lib.nn.Linear(3, 4, dtype=lib.float64)
        module.weight.data, module.bias.data = lib.tensor(weight), lib.tensor(bias)
        states.append(values(REGISTERED[name](module, lib.nn.utils).state_dict()))
    assert_same(*states)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_fused_weights_are_the_same(affine, bias):
    rng = np.random.default_rng(2)
    mean, variance = rng.normal(size=4), rng.uniform(1, 2, size=4)
    scale, shift = (rng.normal(size=4), rng.normal(size=4)) if affine else (None, None)
    found = []
    for lib in (gradhook, torch):
        t = [None if a is None else lib.tensor(a) for a in (mean, variance, scale, shift)]
        weight = lib.tensor(np.ones((4, 4, 2)), requires_grad=True)
        b = lib.tensor(np.arange(4.0)) if bias else None
        results = []
        for transpose in (False, True):
            results += lib.nn.utils.fuse_conv_bn_weights(
                weight, b, t[0], t[1], 1e-5, t[2], t[3], transpose
            )
        if affine:
            results += lib.nn.utils.fuse_linear_bn_weights(
                weight[..., 0], b, t[0], t[1], 1e-5, t[2], t[3]
            )
        found.append({str(i): r for i, r in enumerate(results)})
        assert [r.requires_grad for r in results[:2]] == [True, False]
    assert_same(values(found[0]), values(found[1]))


def test_an_older_spectral_norm_state_is_completed_alike():
    states = []
    for lib in (gradhook, torch):
        rng = np.random.default_rng(3)
        module = lib.nn.utils.spectral_norm(lib.nn.Linear(3, 4, dtype=lib.float64))
        weight = rng.normal(size=(4, 3))
        u = rng.normal(size=4)
        state = {
            "bias": lib.tensor(rng.normal(size=4)),
            "weight_orig": lib.tensor(weight),
            "weight": lib.tensor(weight / 2.5),
            "weight_u": lib.tensor(u),
        }
        module.load_state_dict(state)
        states.append(values(module.state_dict()))
    assert_same(*states)


# ---- functional_call


@pytest.mark.parametrize("tie_weights", [True, False])
def test_a_functional_call_gives_the_same_values_gradients_and_buffers(tie_weights):
    found = []
    for lib in (gradhook, torch):
        net = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.BatchNorm1d(3), lib.nn.Linear(3, 3))
        net = net.to(lib.float64)
        net[2].weight = net[0].weight
        for layer in (net[0], net[2]):
            layer.bias.data = lib.ones(3, dtype=lib.float64)
        net[2].requires_grad_(False)
        net[0].weight.data = lib.eye(3, dtype=lib.float64)
        rng = np.random.default_rng(4)
        given = {
            "0.weight": lib.tensor(rng.normal(size=(3, 3)), requires_grad=True),
            "0.bias": lib.tensor(rng.normal(size=3), requires_grad=True),
            "1.running_mean": lib.tensor(rng.normal(size=3)),
        }
        x = lib.tensor(rng.normal(size=(5, 3)))
        out = lib.func.functional_call(net, given, (x,), tie_weights=tie_weights)
        (out**2).sum().backward()
        grads = {f"{k}.grad": t.grad for k, t in given.items() if t.grad is not None}
        found.append(values({"out": out} | given | grads | dict(net.state_dict())))
    assert_same(*found)
