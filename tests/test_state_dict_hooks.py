"""Hooks of state_dict and load_state_dict: order, results, what they see, all or nothing."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest

import gradhook
from gradhook import nn

REGISTERS = [
    "register_state_dict_pre_hook",
    "register_state_dict_post_hook",
    "_register_state_dict_hook",
    "register_load_state_dict_pre_hook",
    "_register_load_state_dict_pre_hook",
    "register_load_state_dict_post_hook",
]


def save_and_load(module):
    module.load_state_dict(module.state_dict())


def nothing(*args):
    return None


@pytest.fixture
def log():
    return []


def net():
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))


# ---- order and arguments


def test_state_dict_runs_the_parent_s_pre_hook_then_the_children_then_its_post_hook(log):
    model = net()
    for name, m in (("model", model), ("child", model[0])):
        m.register_state_dict_pre_hook(
            lambda m, prefix, keep, name=name: log.append(("pre", name, prefix, keep))
        )
        m.register_state_dict_post_hook(
            lambda m, sd, prefix, meta, name=name: log.append(
                ("post", name, prefix, len(sd), meta["version"])
            )
        )
    model.state_dict(prefix="a.", keep_vars=True)
    assert log == [
        ("pre", "model", "a.", True),
        ("pre", "child", "a.0.", True),
        ("post", "child", "a.0.", 2, 1),
        ("post", "model", "a.", 4, 1),
    ]


def test_load_runs_a_child_between_its_parent_s_pre_and_post_hooks(log):
    model = net()
    for name, m in (("model", model), ("first", model[0]), ("second", model[1])):
        m.register_load_state_dict_pre_hook(
            lambda m, sd, prefix, meta, strict, *lists, name=name: log.append(
                ("pre", name, prefix, sorted(sd), strict, lists)
            )
        )
        m.register_load_state_dict_post_hook(
            lambda m, keys, name=name: log.append(("post", name, *keys))
        )
    model.load_state_dict(model.state_dict(), strict=False)
    keys = ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert log == [
        ("pre", "model", "", keys, True, ([], [], [])),
        ("pre", "first", "0.", keys[:2], True, ([], [], [])),
        ("post", "first", [], []),
        ("pre", "second", "1.", keys[2:], True, ([], [], [])),
        ("post", "second", [], []),
        ("post", "model", [], []),
    ]


def test_a_load_pre_hook_may_rename_entries_and_the_private_form_gets_no_module(log):
    model = nn.Sequential(nn.Linear(2, 1, bias=False))

    def rename(state_dict, prefix, *rest):
        log.append(prefix)
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")

    model[0]._register_load_state_dict_pre_hook(rename)
    model.load_state_dict({"0.kernel": gradhook.ones(1, 2)})
    assert model[0].weight.tolist() == [[1, 1]] and log == ["0."]
    model[0].remove_hooks("load_state_dict_pre")
    model[0]._register_load_state_dict_pre_hook(lambda m, sd, *rest: log.append(m), True)
    save_and_load(model)
    assert log[1] is model[0]


def test_a_load_post_hook_sees_the_loaded_values(log):
    model = net()
    model[0].register_load_state_dict_post_hook(lambda m, keys: log.append(m.bias.tolist()))
    model.load_state_dict({k: gradhook.full_like(v, 7) for k, v in model.state_dict().items()})
    assert log == [[7, 7]]


# ---- results


def test_a_private_state_dict_hook_replaces_the_root_s_result_only():
    model = net()
    model[0]._register_state_dict_hook(lambda m, sd, prefix, meta: {})
    assert len(model.state_dict()) == 4
    model._register_state_dict_hook(lambda m, sd, prefix, meta: {"n": len(sd)})
    assert model.state_dict() == {"n": 4}


def test_a_public_state_dict_post_hook_that_returns_something_is_named():
    def gives(*args):
        return {}

    model = net()
    model.register_state_dict_post_hook(gives)
    with pytest.raises(
        RuntimeError, match=r"^state_dict post-hook must return None, but 'gives' of <Sequential>"
    ):
        model.state_dict()


def test_a_bound_method_may_be_a_state_dict_post_hook():
    class Writes(nn.Linear):
        def note(self, module, state, prefix, metadata):
            state[prefix + "note"] = module is self

    module = Writes(1, 1)
    module.register_state_dict_post_hook(module.note)
    assert module.state_dict()["note"] is True


def test_one_function_serves_both_forms_on_different_modules_but_not_twice_on_one():
    def empty(m, state, prefix, metadata):
        return {} if prefix == "" else None

    a, b = net(), net()
    handle = a.register_state_dict_post_hook(empty)
    with pytest.raises(RuntimeError, match="previously registered via register_state_dict_post"):
        a._register_state_dict_hook(empty)
    b._register_state_dict_hook(empty)
    assert b.state_dict() == {}
    handle.remove()
    a._register_state_dict_hook(empty)
    assert a.state_dict() == {}


def test_a_load_post_hook_that_returns_something_is_named_and_nothing_is_loaded():
    model = net()
    before = model[0].bias.tolist()

    def gives(module, keys):
        return keys

    model[0].register_load_state_dict_post_hook(gives)
    new = {k: gradhook.full_like(v, 7) for k, v in model.state_dict().items()}
    with pytest.raises(AssertionError, match=r"should be done inplace; 'gives' of <Linear>"):
        model.load_state_dict(new)
    assert model[0].bias.tolist() == before


# ---- incompatible keys


def test_a_load_post_hook_may_clear_and_add_incompatible_keys():
    model = net()
    handle = model[1].register_load_state_dict_post_hook(
        lambda m, keys: [some.clear() for some in keys] and None
    )
    assert str(model.load_state_dict({**model.state_dict(), "x": gradhook.ones(1)})) == (
        "<All keys matched successfully>"
    )
    handle.remove()

    def add(module, keys):
        keys.missing_keys.append("lost")
        keys.unexpected_keys.append("found")

    model.register_load_state_dict_post_hook(add)
    before = model[0].bias.tolist()
    new = {k: gradhook.full_like(v, 7) for k, v in model.state_dict().items()}
    with pytest.raises(RuntimeError, match=r'Missing key.*"lost".*\n.*Unexpected key.*"found"'):
        model.load_state_dict(new)
    assert model[0].bias.tolist() == before
    assert model.load_state_dict(new, strict=False) == (["lost"], ["found"])
    assert model[0].bias.tolist() == [7, 7]


def test_with_prefix_a_load_post_hook_sees_and_edits_only_the_keys_below_its_module(log):
    model = net()

    def clear(module, keys, prefix):
        log.append((prefix, list(keys.missing_keys), list(keys.unexpected_keys)))
        keys.missing_keys.clear()
        keys.unexpected_keys.clear()

    model[1].register_load_state_dict_post_hook(clear, with_prefix=True)
    state = model.state_dict()
    del state["0.bias"], state["1.bias"]
    state["1.extra"] = state["extra"] = gradhook.ones(1)
    result = model.load_state_dict(state, strict=False)
    assert log == [("1.", ["1.bias"], ["1.extra"])]
    assert result == (["0.bias"], ["extra"])


def test_a_load_that_fails_after_a_post_hook_ran_is_taken_back(log):
    model = net()
    model[0].register_load_state_dict_post_hook(lambda m, keys: log.append(m.bias.tolist()))
    before = {k: v.tolist() for k, v in model.state_dict().items()}
    new = {k: gradhook.full_like(v, 7) for k, v in model.state_dict().items()}
    new["1.bias"] = gradhook.ones(5)
    parameters = list(model.parameters())
    for assign in (False, True):
        with pytest.raises(RuntimeError, match=r"size mismatch for 1\.bias"):
            model.load_state_dict(new, assign=assign)
        assert log.pop() == [7, 7]
        assert {k: v.tolist() for k, v in model.state_dict().items()} == before
        assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))


# ---- changes while firing, errors


@pytest.mark.parametrize("register", REGISTERS)
def test_a_hook_may_remove_itself_and_register_others_while_its_kind_fires(register, log):
    module = nn.Linear(1, 1)
    add = getattr(module, register)

    def once(*args):
        log.append("once")
        handle.remove()
        add(lambda *args: log.append("new"))

    handle = add(once)
    add(lambda *args: log.append("last"))
    save_and_load(module)
    assert log == ["once", "last"]
    save_and_load(module)
    assert log == ["once", "last", "last", "new"]


@pytest.mark.parametrize("register", REGISTERS)
def test_an_error_in_a_hook_keeps_its_type_and_says_whose_hook_it_was(register):
    def fails(*args):
        raise ZeroDivisionError

    module = nn.Linear(1, 1)
    getattr(module, register)(fails)
    with pytest.raises(ZeroDivisionError) as error:
        save_and_load(module)
    kind = "load_state_dict" if "load" in register else "state_dict"
    when = "pre" if "pre" in register else "post"
    (note,) = error.value.__notes__
    assert note.startswith(f"in {kind} {when}-hook 'fails' (registered at {__file__}:")
    assert note.endswith(") of module <Linear>")


@pytest.mark.parametrize("register", REGISTERS)
def test_what_cannot_be_called_is_refused_at_registration(register):
    with pytest.raises(TypeError, match="hook is not callable: found 3"):
        getattr(nn.Linear(1, 1), register)(3)


# ---- copies and life


@pytest.mark.parametrize("register", REGISTERS)
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"]
)
def test_hooks_are_kept_by_deepcopy_and_pickle(register, duplicate):
    module = nn.Linear(1, 1)
    getattr(module, register)(nothing)
    twin = duplicate(module)
    assert [h.hook for h in twin.hooks()] == [nothing]
    assert [h[:2] + h[3:] for h in twin.hooks()] == [h[:2] + h[3:] for h in module.hooks()]
    twin.remove_hooks()
    assert len(module.hooks()) == 1
    save_and_load(twin)


@pytest.mark.parametrize("register", REGISTERS)
def test_a_hook_keeps_no_reference_to_its_module(register):
    gc.disable()
    try:
        module = nn.Linear(1, 1)
        getattr(module, register)(nothing)
        dead = weakref.ref(module)
        del module
        assert dead() is None
    finally:
        gc.enable()


def test_a_module_from_before_a_table_existed_makes_it_when_asked():
    module = nn.Linear(1, 1)
    save_and_load(module)
    assert not [name for name in module.__dict__ if name.endswith("_hooks")]
    assert module._load_state_dict_post_hooks == {}
    del module._load_state_dict_post_hooks
    save_and_load(module)
    with pytest.raises(AttributeError, match="has no table _state_dict_hooks yet"):
        del module._state_dict_hooks
