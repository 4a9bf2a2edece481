"""Listing and removing a module's or optimizer's hooks by kind; tables made on demand."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import gradhook
from gradhook import nn, optim
from gradhook.hooks import HookTable, RegisteredHook

KINDS = {
    "forward_pre": "register_forward_pre_hook",
    "forward": "register_forward_hook",
    "full_backward_pre": "register_full_backward_pre_hook",
    "full_backward": "register_full_backward_hook",
    "state_dict_pre": "register_state_dict_pre_hook",
    "state_dict_post": "register_state_dict_post_hook",
    "load_state_dict_pre": "register_load_state_dict_pre_hook",
    "load_state_dict_post": "register_load_state_dict_post_hook",
}
TABLES = [
    *("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"),
    *("_state_dict_pre_hooks", "_state_dict_hooks"),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
]


def nothing(*args):
    return None


def with_every_kind(module):
    return {kind: getattr(module, name)(nothing) for kind, name in KINDS.items()}


def test_hooks_lists_every_kind_under_the_name_of_its_register_method():
    module = nn.ReLU()
    assert module.hooks() == []
    handles = with_every_kind(module)
    assert {(h.kind, h.id) for h in module.hooks()} == {(k, h.id) for k, h in handles.items()}
    for kind, handle in handles.items():
        ((found, key, hook, _),) = module.hooks(kind)
        assert (found, key, hook) == (kind, handle.id, nothing)


def test_hooks_shows_firing_order_and_flags():
    module = nn.ReLU()
    module.register_forward_hook(print)
    module.register_forward_hook(repr, prepend=True, with_kwargs=True, always_call=True)
    first, second = module.hooks("forward")
    assert (first.hook, second.hook) == (repr, print)
    assert first.flags == {"with_kwargs", "always_call"} and isinstance(first, RegisteredHook)


def test_legacy_backward_hooks_are_a_kind_of_their_own():
    module = nn.ReLU()
    module.register_backward_hook(nothing)
    assert [h.kind for h in module.hooks()] == ["backward"]
    assert module.hooks("full_backward") == []
    assert module.remove_hooks("full_backward") == 0 and module.remove_hooks("backward") == 1
    assert module._is_full_backward_hook is None


@pytest.mark.parametrize("kind", KINDS)
def test_remove_hooks_removes_one_kind_here_and_below(kind):
    model = nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU()))
    for module in model.modules():
        with_every_kind(module)
    assert model.remove_hooks(kind, recurse=False) == 1
    assert not model.hooks(kind) and model[1][0].hooks(kind)
    assert model.remove_hooks(kind) == 3
    assert all(len(m.hooks()) == len(KINDS) - 1 for m in model.modules())
    assert model.remove_hooks() == 4 * (len(KINDS) - 1)
    assert not any(m.hooks() for m in model.modules())


def test_an_unknown_kind_is_refused_with_the_kinds_there_are():
    for act in (nn.ReLU().hooks, nn.ReLU().remove_hooks):
        with pytest.raises(
            ValueError, match=r"unknown kind of hook 'foward' for ReLU.*forward_pre"
        ):
            act("foward")


def test_a_member_named_hooks_comes_before_the_method():
    model = nn.Module()
    model.hooks = nn.ModuleList([nn.ReLU()])
    assert isinstance(model.hooks, nn.ModuleList)
    other = nn.Module()
    other.add_module("hooks", nn.ReLU())
    other.register_buffer("remove_hooks", gradhook.ones(1))
    assert isinstance(other.hooks, nn.ReLU) and other.remove_hooks.tolist() == [1]
    plain = nn.Module()
    plain.hooks = []
    assert plain.hooks == [] and callable(nn.Module.hooks)


def test_optimizers_list_and_remove_their_hooks_too():
    opt = optim.SGD([nn.Parameter(gradhook.ones(1))])
    handle = opt.register_step_pre_hook(nothing)
    opt.register_load_state_dict_post_hook(nothing)
    assert [(h.kind, h.hook) for h in opt.hooks()] == [
        ("step_pre", nothing),
        ("load_state_dict_post", nothing),
    ]
    assert opt.hooks("step_pre")[0].id == handle.id
    assert opt.remove_hooks("step_pre") == 1 and len(opt.hooks()) == 1
    with pytest.raises(ValueError, match="unknown kind of hook 'forward' for SGD"):
        opt.hooks("forward")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_made_on_demand_and_may_be_rebound(name):
    module = nn.Linear(1, 1)
    assert name not in module.__dict__
    table = getattr(module, name)
    assert isinstance(table, HookTable) and getattr(module, name) is table
    setattr(module, name, OrderedDict({-1: nothing}))
    assert isinstance(getattr(module, name), HookTable)
    assert [(h.id, h.hook) for h in module.hooks()] == [(-1, nothing)]
    other = HookTable()
    setattr(module, name, other)
    assert getattr(module, name) is other
    with pytest.raises(TypeError, match="a hook table is a dict of id: hook, found int"):
        setattr(module, name, 3)
    with pytest.raises(AttributeError, match=f"{name}: each object has a table of its own"):
        getattr(nn.Linear, name)


def test_only_hooks_of_calls_make_calls_look_for_hooks():
    module = nn.Linear(1, 1)
    module.register_state_dict_pre_hook(nothing)
    assert not module._hook_kinds
    module.register_forward_hook(nothing)
    assert module._hook_kinds


def test_full_and_legacy_hooks_may_follow_each_other_once_the_table_is_empty():
    module = nn.ReLU()
    for register, removed in (
        (module.register_full_backward_hook, lambda h: h.remove()),
        (module.register_backward_hook, lambda h: module._backward_hooks.clear()),
        (module.register_full_backward_hook, lambda h: module.remove_hooks("full_backward")),
        (module.register_backward_hook, lambda h: setattr(module, "_backward_hooks", {})),
        (module.register_full_backward_hook, lambda h: None),
    ):
        removed(register(nothing))
    assert module._is_full_backward_hook is True


@pytest.mark.parametrize("name", ["_forward_hooks", "_backward_hooks", "_backward_pre_hooks"])
def test_a_module_whose_table_was_deleted_is_called_without_it(name):
    module, calls = nn.ReLU(), []
    getattr(module, name).add(lambda *given: calls.append(1))
    delattr(module, name)
    module(gradhook.ones(1, requires_grad=True)).sum().backward()
    assert calls == []


def test_forward_hooks_that_came_by_another_table_keep_their_options():
    source, module, seen = nn.ReLU(), nn.Linear(2, 1), []
    source.register_forward_hook(
        lambda m, args, kwargs, out: seen.append(out), with_kwargs=True, always_call=True
    )
    module._forward_hooks.update(source._forward_hooks)
    module(gradhook.ones(1, 2))
    with pytest.raises(RuntimeError):
        module(gradhook.ones(1, 3))
    assert len(seen) == 2 and seen[1] is None


def test_backward_hooks_that_came_by_another_table_keep_their_options():
    source, module, seen = nn.ReLU(), nn.Linear(2, 1), []
    source.register_full_backward_hook(
        lambda m, gi, kwargs, go: seen.append((gi, kwargs)), with_kwargs=True
    )
    module._backward_hooks.update(source._backward_hooks)
    module(input=gradhook.ones(1, 2, requires_grad=True)).sum().backward()
    ((args, kwargs),) = seen
    assert args == () and kwargs["input"].shape == (1, 2)
