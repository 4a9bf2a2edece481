"""Hooks of state, registration and optimizers: the same script on torch and gradhook, where torch
is right."""

from __future__ import annotations

import copy
import importlib
import pickle

import numpy as np
import pytest

pytest.importorskip("torch", reason="differential tests need torch")


class Script:
    """One library, and a log of plain values: names, numbers, keys."""

    def __init__(self, name):
        self.name = name
        self.lib = importlib.import_module(name)
        self.nn = self.lib.nn
        self.optim = importlib.import_module(f"{name}.optim")
        self.modules = importlib.import_module(f"{name}.nn.modules.module")
        self.log = []

    def note(self, *values):
        self.log.append(self.plain(values))

    def plain(self, value):
        if isinstance(value, self.lib.Tensor):
            return np.round(value.detach().numpy(), 6).tolist()
        if isinstance(value, self.nn.Module | self.optim.Optimizer):
            return type(value).__name__
        if isinstance(value, dict):
            return [(k, self.plain(v)) for k, v in value.items()]
        return [self.plain(v) for v in value] if isinstance(value, tuple | list) else value

    def say(self, name, *, result=None):
        def hook(*args):
            self.note(name, *args)
            return result

        return hook

    def attempt(self, action):
        try:
            self.note("ok", action())
        except Exception as error:
            text = str(error).replace("torch.", "").replace("gradhook.", "")
            self.note(type(error).__name__, text.splitlines()[0].split(",")[0][:70])

    def net(self):
        model = self.nn.Sequential(self.nn.Linear(1, 1), self.nn.BatchNorm1d(1))
        for k, p in enumerate(model.parameters()):
            p.data = self.lib.full(p.shape, float(k))
        return model

    def parameter(self, grad=1.0):
        p = self.nn.Parameter(self.lib.ones(1))
        p.grad = self.lib.full((1,), grad)
        return p


# ---- module state


def saving(s):
    model = s.net()
    for m in model.modules():
        m.register_state_dict_pre_hook(s.say("pre"))
        m.register_state_dict_post_hook(s.say("post"))
        m._register_state_dict_hook(s.say("private"))
    s.note(model.state_dict(prefix="p."))
    s.note(model.state_dict(keep_vars=True))
    s.note(dict(model.state_dict()._metadata))


def saving_results(s):
    model = s.net()
    model[0]._register_state_dict_hook(lambda *a: {"lost": 1})
    s.note(sorted(model.state_dict()))
    model._register_state_dict_hook(lambda m, sd, p, meta: {"kept": len(sd)})
    s.note(model.state_dict())
    model.register_state_dict_pre_hook(lambda *a: {"ignored": 1})
    s.note(model.state_dict())
    other = s.net()
    other.register_state_dict_post_hook(lambda *a: {})
    s.attempt(other.state_dict)


def loading(s):
    model = s.net()
    for m in model.modules():
        m.register_load_state_dict_pre_hook(s.say("pre"))
        m._register_load_state_dict_pre_hook(s.say("private"))
        m._register_load_state_dict_pre_hook(s.say("private with module"), True)
        m.register_load_state_dict_post_hook(s.say("post"))
    state = model.state_dict()
    s.note(model.load_state_dict(state))
    del state["0.bias"]
    state["1.extra"] = s.lib.ones(1)
    state["extra"] = s.lib.ones(1)
    s.note(model.load_state_dict(state, strict=False))
    s.attempt(lambda: model.load_state_dict(state))


def loading_values(s):
    model = s.net()
    model[0].register_load_state_dict_post_hook(lambda m, keys: s.note(m.weight, m.bias))
    model.register_load_state_dict_post_hook(lambda m, keys: s.note(m[1].running_mean))
    model.load_state_dict({k: v * 0 + 3 for k, v in model.state_dict().items()})


def loading_edits(s):
    model = s.net()

    def rename(state, prefix, *rest):
        state[prefix + "weight"] = state.pop(prefix + "w")

    model[0]._register_load_state_dict_pre_hook(rename)
    state = model.state_dict()
    state["0.w"] = state.pop("0.weight") + 4
    model.load_state_dict(state)
    s.note(model[0].weight, sorted(state))
    model[1].register_load_state_dict_post_hook(lambda m, k: k.missing_keys.append("a"))
    model.register_load_state_dict_post_hook(lambda m, k: k.unexpected_keys.append("b"))
    s.note(model.load_state_dict(state, strict=False))
    s.attempt(lambda: model.load_state_dict(state))
    model.register_load_state_dict_post_hook(lambda m, k: k)
    s.attempt(lambda: model.load_state_dict(state))


def clearing(s):
    model = s.nn.Sequential(s.nn.Linear(1, 1), s.nn.Linear(1, 1))
    model[0].register_load_state_dict_post_hook(lambda m, k: [some.clear() for some in k] and None)
    state = model.state_dict()
    del state["0.bias"]
    state["x"] = s.lib.ones(1)
    s.note(model.load_state_dict(state))
    del state["1.bias"]  # a later sibling's is not cleared
    s.note(model.load_state_dict(state, strict=False))
    s.attempt(lambda: model.load_state_dict(state))


def upgrades(s):
    class Old(s.nn.Linear):
        _version = 3

        def _load_from_state_dict(self, state, prefix, metadata, *rest):
            s.note("version", metadata.get("version"))
            if metadata.get("version", 1) < 3:
                state[prefix + "bias"] = s.lib.full((1,), 9.0)
            super()._load_from_state_dict(state, prefix, metadata, *rest)

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "made"] = s.lib.ones(1)

    module = Old(1, 1)
    module.register_load_state_dict_pre_hook(lambda m, sd, *r: s.note("pre", sorted(sd)))
    state = module.state_dict()
    s.note(sorted(state), dict(state._metadata))
    module.load_state_dict({"weight": s.lib.ones(1, 1)})
    s.note(module.bias)
    module.load_state_dict(state, strict=False)


def extra_state(s):
    class Counts(s.nn.Module):
        steps = 2

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    model = s.nn.Sequential(Counts(), s.nn.ReLU())
    model[0].register_load_state_dict_post_hook(lambda m, k: s.note("post", m.steps))
    s.note(model.state_dict())
    model.load_state_dict({"0._extra_state": {"steps": 5}})
    s.attempt(lambda: model.load_state_dict({}))
    s.attempt(lambda: model.load_state_dict({"0._extra_state": {"steps": 1}, "1._extra_state": 1}))


def copies(s):
    module = s.nn.Linear(1, 1)
    module.register_state_dict_pre_hook(noted)
    module.register_load_state_dict_pre_hook(noted)
    module.register_load_state_dict_post_hook(noted)
    module._register_state_dict_hook(noted)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        seen.clear()
        twin.load_state_dict(twin.state_dict())
        s.note(len(seen))
    module.weight.register_hook(noted)
    module.weight.register_post_accumulate_grad_hook(noted)
    twin = copy.deepcopy(module)
    s.note(len(twin.weight._backward_hooks or ()))
    s.note(len(twin.weight._post_accumulate_grad_hooks or ()))


seen = []


def noted(*args):
    seen.append(args)


# ---- lazy modules


def lazy(s):
    model = s.nn.Sequential(s.nn.LazyLinear(3), s.nn.LazyLinear(2, bias=False))
    s.note(
        repr(model), [repr(p) for p in model.parameters()], [repr(v) for v in model.state_dict()]
    )
    weight = model[0].weight
    s.note(weight.requires_grad, weight.is_leaf, weight.is_floating_point(), str(weight.device))
    s.attempt(lambda: weight.shape)
    s.attempt(lambda: model.load_state_dict({"0.weight": s.lib.ones(3, 4)}, strict=False))
    s.note(model[0].weight, repr(model[0].bias), repr(model[0]))
    model = s.nn.Sequential(s.nn.LazyLinear(3), s.nn.LazyLinear(2, bias=False))
    weight = model[0].weight
    model(s.lib.ones(2, 4))
    s.note(repr(model), list(model[0].weight.shape), model[0].weight is weight)
    s.note(len(model[0]._forward_pre_hooks), len(model[0]._load_state_dict_pre_hooks))
    s.note([list(v.shape) for v in model.state_dict().values()])
    other = s.nn.LazyLinear(2)
    other.load_state_dict(s.nn.Linear(4, 2).state_dict())
    s.attempt(lambda: other(s.lib.ones(1, 3)))
    twin = copy.deepcopy(s.nn.LazyLinear(2))
    s.note(list(twin(s.lib.ones(1, 3)).shape), repr(twin))


# ---- registration


def registration(s):
    kinds = ("buffer", "module", "parameter")

    def say(kind):
        return lambda m, name, value: s.note(kind, m, name, value is None)

    handles = [
        getattr(s.modules, f"register_module_{kind}_registration_hook")(say(kind)) for kind in kinds
    ]
    try:
        net = s.nn.Module()
        net.p = s.parameter()
        net.register_parameter("q", s.parameter())
        net.register_parameter("none", None)
        net.p = None
        net.register_buffer("b", s.lib.ones(1))
        net.b = s.lib.zeros(1)
        net.b = None
        net.c = s.nn.Buffer(s.lib.ones(1), persistent=False)
        net.add_module("m", s.nn.ReLU())
        net.register_module("n", s.nn.ReLU())
        net.m = s.nn.Tanh()
        net.m = None
        net.plain = 3
        s.net()
        other = s.net()
        other.load_state_dict(other.state_dict(), assign=True)
        s.note(sorted(other.state_dict()))
        copy.deepcopy(other)
        other.double()
    finally:
        for handle in handles:
            handle.remove()
    s.net()


def registration_results(s):
    hook = s.modules.register_module_parameter_registration_hook
    with hook(lambda m, n, p: s.parameter(5.0)), hook(s.say("second")):
        net = s.nn.Module()
        net.p = s.parameter()
    s.note(net.p.grad)


# ---- optimizers


def steps(s):
    p = s.parameter()
    opt = s.optim.SGD([p], lr=0.5)
    everywhere = importlib.import_module(f"{s.name}.optim.optimizer")

    def say(name):
        return lambda o, args, kwargs: s.note(name, o, len(args), sorted(kwargs), p)

    handles = [
        opt.register_step_post_hook(say("own post")),
        everywhere.register_optimizer_step_post_hook(say("global post")),
        opt.register_step_pre_hook(say("own pre")),
        everywhere.register_optimizer_step_pre_hook(say("global pre")),
    ]
    s.note(opt.step())
    s.note(opt.step(closure=lambda: 3.0))
    with pytest.raises(ZeroDivisionError):
        opt.step(lambda: 1 / 0)
    for handle in handles:
        handle.remove()
    opt.step()


def step_arguments(s):
    opt = s.optim.SGD([s.parameter()], lr=0.5)
    opt.register_step_pre_hook(lambda o, args, kwargs: ((o,), {"closure": lambda: 9.0}))
    opt.register_step_post_hook(lambda o, args, kwargs: s.note(args, sorted(kwargs)) or 5)
    s.note(opt.step(lambda: 3.0))


def optimizer_state(s):
    p = s.parameter()
    opt = s.optim.SGD([p], lr=0.5, momentum=0.9)
    opt.step()
    opt.register_state_dict_pre_hook(lambda o: s.note("pre", p) or 5)
    opt.register_state_dict_post_hook(lambda o, sd: s.note("post", sorted(sd)))
    opt.register_state_dict_post_hook(lambda o, sd: {**sd, "x": 1}, prepend=True)
    state = opt.state_dict()
    s.note(sorted(state))
    opt.register_load_state_dict_pre_hook(lambda o, sd: s.note("load pre", sorted(sd)))
    opt.register_load_state_dict_pre_hook(
        lambda o, sd: {**sd, "param_groups": [{**g, "lr": 7.0} for g in sd["param_groups"]]},
        prepend=True,
    )
    opt.register_load_state_dict_post_hook(lambda o: s.note("loaded", o.param_groups[0]["lr"]))
    s.note(opt.load_state_dict(state), state["param_groups"][0]["lr"])
    s.note(opt.state[p]["momentum_buffer"])


SCRIPTS = [
    *(saving, saving_results, loading, loading_values, loading_edits, clearing, upgrades),
    *(extra_state, copies, lazy, registration, registration_results),
    *(steps, step_arguments, optimizer_state),
]


@pytest.mark.filterwarnings("ignore:.*Lazy modules are a new feature")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda f: f.__name__)
def test_a_script_gives_what_torch_gives(script):
    logs = []
    for name in ("torch", "gradhook"):
        run = Script(name)
        script(run)
        logs.append(run.log)
    assert logs[1] == logs[0] and logs[0]
