"""Params-ready hooks: when every gradient of a module's parameters has been accumulated."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import nn

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def test_params_ready_fires_once_a_pass_when_all_post_accumulate_hooks_have_run():
    log = []
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name))

    def ready(m, ps):
        same = [p is q for p, q in zip(ps, m.parameters(), strict=True)]
        log.append(("last", m is model[2], same))

    model[2].register_params_ready_hook(ready)
    model.register_params_ready_hook(lambda m, ps: log.append(("all", len(ps))))
    for _ in range(2):
        log.clear()
        model(leaf([[1.0, 2.0]])).sum().backward()
        assert sorted(log[:2]) == ["2.bias", "2.weight"]
        assert log[2] == ("last", True, [True, True])
        assert sorted(log[3:5]) == ["0.bias", "0.weight"] and log[5:] == [("all", 4)]


def test_a_shared_parameter_is_ready_after_its_last_use():
    log, layer = [], nn.Linear(1, 1, bias=False).double()
    layer.register_params_ready_hook(lambda m, ps: log.append(ps[0].grad.item()))
    layer.weight.data.fill_(3.0)
    x = leaf([[2.0]])
    layer(layer(x)).sum().backward()  # w * w * x
    assert log == [12.0]


def test_only_parameters_that_the_pass_reaches_are_waited_for():
    log, model = [], nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)).double()
    model.register_params_ready_hook(lambda m, ps: log.append(len(ps)))
    model[0](leaf([[1.0]])).sum().backward()
    assert log == [2]
    out = model(leaf([[1.0]])).sum()
    out.backward(inputs=[model[1].weight], retain_graph=True)
    assert log == [2, 1]
    gradhook.autograd.grad(out, model[1].weight)
    assert log == [2, 1]
    model[0].weight.requires_grad_(False)
    model(leaf([[1.0]])).sum().backward()
    assert log == [2, 1, 3]


def test_complete_hooks_come_before_params_ready_and_after_full_hooks():
    log, module = [], nn.Linear(2, 2).double()
    module.register_params_ready_hook(lambda m, ps: log.append("params"))
    module.register_full_backward_hook(lambda m, gi, go: log.append("complete"), when="complete")
    module.register_full_backward_hook(lambda m, gi, go: log.append("full"))
    module(leaf([[1.0, 2.0]])).sum().backward()
    assert log == ["full", "complete", "params"]


def test_a_params_ready_hook_returns_none_and_an_error_names_it():
    module = nn.Linear(2, 2).double()
    with module.register_params_ready_hook(lambda m, ps: 1):
        with pytest.raises(RuntimeError, match="params-ready hook returned a int, expected None"):
            module(leaf([[1.0, 2.0]])).sum().backward()

    def fails(m, ps):
        raise ValueError("mine")

    with module.register_params_ready_hook(fails):
        with pytest.raises(ValueError, match="mine") as error:
            module(leaf([[1.0, 2.0]])).sum().backward()
    assert any("params-ready hook" in n and "fails" in n for n in error.value.__notes__)
    module.zero_grad()
    module(leaf([[1.0, 2.0]])).sum().backward()  # removed, and the engine is usable
    assert module.bias.grad.tolist() == [1.0, 1.0]
