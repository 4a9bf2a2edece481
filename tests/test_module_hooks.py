"""Module forward hooks and the registration of every kind: order, results, global forms, mixing."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import nn
from gradhook.nn.modules import module as everywhere


def leaf(values):
    return gradhook.tensor(values, dtype=gradhook.float64, requires_grad=True)


class Double(nn.Module):
    def forward(self, x, *, scale=2.0):
        return x * scale


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("in forward")


@pytest.fixture
def log():
    return []


# ---- order


def test_all_kinds_fire_in_the_promised_order_global_before_local(log):
    inner, outer = Double(), nn.Sequential()
    outer.append(inner)
    names = {id(inner): "inner", id(outer): "outer"}

    def say(kind):
        def hook(module, *args):
            log.append(f"{kind} {names[id(module)]}")

        return hook

    with (
        everywhere.register_module_forward_pre_hook(say("global pre")),
        everywhere.register_module_forward_hook(say("global forward")),
        everywhere.register_module_full_backward_pre_hook(say("global backward pre")),
        everywhere.register_module_full_backward_hook(say("global backward")),
    ):
        for module in (inner, outer):
            module.register_forward_pre_hook(say("pre"))
            module.register_forward_hook(say("forward"))
            module.register_full_backward_pre_hook(say("backward pre"))
            module.register_full_backward_hook(say("backward"))
        y = outer(leaf([1.0]))
        assert log == [
            *("global pre outer", "pre outer", "global pre inner", "pre inner"),
            *("global forward inner", "forward inner", "global forward outer", "forward outer"),
        ]
        log.clear()
        y.sum().backward()
        assert log == [
            *("global backward pre outer", "backward pre outer"),
            *("global backward pre inner", "backward pre inner"),
            *("global backward inner", "backward inner"),
            *("global backward outer", "backward outer"),
        ]


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_pre_hook",
        "register_forward_hook",
        "register_full_backward_pre_hook",
        "register_full_backward_hook",
    ],
)
def test_prepend_puts_a_hook_first_and_handles_remove(register, log):
    module = Double()
    add = getattr(module, register)
    add(lambda *a: log.append("a"))
    handle = add(lambda *a: log.append("b"))
    add(lambda *a: log.append("c"), prepend=True)
    add(lambda *a: log.append("d"), prepend=True)
    module(leaf([1.0])).sum().backward()
    assert log == ["d", "c", "a", "b"]
    handle.remove()
    log.clear()
    module(leaf([1.0])).sum().backward()
    assert log == ["d", "c", "a"]


def test_forward_alone_calls_no_hooks(log):
    module = Double()
    module.register_forward_hook(lambda *a: log.append("hook"))
    module.forward(leaf([1.0]))
    assert log == []


# ---- forward pre-hooks


def test_a_pre_hook_replaces_arguments_a_single_value_is_wrapped_and_a_list_is_one_argument():
    module = Double()
    x = leaf([1.0])
    with module.register_forward_pre_hook(lambda m, args: (args[0] + 1,)):
        assert module(x).tolist() == [4]
    with module.register_forward_pre_hook(lambda m, args: args[0] + 1):
        assert module(x).tolist() == [4]
    with module.register_forward_pre_hook(lambda m, args: None):
        assert module(x).tolist() == [2]

    class First(nn.Module):
        def forward(self, items):
            return items[0]

    first = First()
    first.register_forward_pre_hook(lambda m, args: [args[0], 5])
    assert first(7) == 7


def test_a_pre_hook_with_kwargs_sees_and_replaces_both():
    module, x = Double(), leaf([1.0])
    handle = module.register_forward_pre_hook(
        lambda m, args, kwargs: ((args[0] + 1,), {"scale": kwargs["scale"] * 10}), with_kwargs=True
    )
    assert module(x, scale=3).tolist() == [60]
    handle.remove()
    module.register_forward_pre_hook(lambda m, a, k: None, with_kwargs=True)
    assert module(x, scale=3).tolist() == [3]


@pytest.mark.parametrize("returned", [5, (1,), (1, 2, 3), [1, {}], (5, {}), ((), 5)])
def test_a_malformed_pair_of_a_pre_hook_with_kwargs_is_refused(returned):
    module = Double()
    module.register_forward_pre_hook(lambda m, a, k: returned, with_kwargs=True)
    with pytest.raises(
        RuntimeError,
        match=r"^forward pre-hook must return None or a tuple of \(new_args, new_kwargs\), but got",
    ):
        module(leaf([1.0]))


# ---- forward hooks


def test_forward_hooks_chain_their_replacements(log):
    module = Double()
    module.register_forward_hook(lambda m, args, out: out + 1)
    module.register_forward_hook(lambda m, args, out: log.append(out.tolist()))
    module.register_forward_hook(
        lambda m, args, kwargs, out: out * kwargs["scale"], with_kwargs=True
    )
    assert module(leaf([1.0]), scale=3).tolist() == [12] and log == [[4]]


def test_a_forward_hook_gets_the_arguments_that_pre_hooks_made(log):
    module = Double()
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.register_forward_hook(lambda m, args, out: log.append(args[0].tolist()))
    module(leaf([1.0]))
    assert log == [[2]]


@pytest.mark.parametrize("where", ["pre-hook", "forward", "forward hook"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_always_call_hooks_run_once_whatever_failed(where, error, log):
    module = Double()

    def fail(*args, **kwargs):
        raise error("first")

    if where == "pre-hook":
        module.register_forward_pre_hook(fail)
    elif where == "forward":
        module.forward = fail
    module.register_forward_hook(lambda m, a, o: log.append("before"), always_call=True)
    if where == "forward hook":
        module.register_forward_hook(fail)
    module.register_forward_hook(
        lambda m, a, k, o: log.append(("after", k)), always_call=True, with_kwargs=True
    )
    with pytest.raises(error, match=r"first"):
        module(leaf([1.0]), scale=1)
    assert log == ["before", ("after", {"scale": 1})]


def test_always_call_hooks_run_once_when_all_goes_well_and_may_replace(log):
    module = Double()
    module.register_forward_hook(lambda m, a, o: log.append("hook") or o * 2, always_call=True)
    assert module(leaf([1.0])).tolist() == [4] and log == ["hook"]


def test_an_always_call_hook_that_fails_hides_no_error_and_may_remove_itself():
    module, handles = Fails(), []
    handles.append(
        module.register_forward_hook(lambda m, a, o: handles[0].remove(), always_call=True)
    )
    module.register_forward_hook(lambda m, a, o: 1 / 0, always_call=True)
    with (
        pytest.warns(
            UserWarning,
            match=r"always_call=True`` raised an exception that was silenced as another",
        ),
        pytest.raises(ValueError, match=r"in forward"),
    ):
        module(leaf([1.0]))
    assert len(module._forward_hooks) == 1


def test_global_always_call_hooks_with_kwargs_run(log):
    with everywhere.register_module_forward_hook(
        lambda m, a, k, o: log.append((type(m).__name__, k)), with_kwargs=True, always_call=True
    ):
        with pytest.raises(ValueError):
            Fails()(leaf([1.0]))
        Double()(leaf([1.0]), scale=1)
    assert log == [("Fails", {}), ("Double", {"scale": 1})]


def test_errors_in_forward_hooks_carry_a_note_with_hook_and_module():
    def broken(module, args, output=None):
        raise KeyError("x")

    for register in ("register_forward_pre_hook", "register_forward_hook"):
        module = Double()
        getattr(module, register)(broken)
        with pytest.raises(KeyError) as caught:
            module(leaf([1.0]))
        assert any("broken" in n and "Double" in n for n in caught.value.__notes__)


def test_forward_hooks_registered_and_removed_while_firing_count_from_the_next_call(log):
    module, handles = Double(), {}

    def first(m, a, o):
        log.append("first")
        if "second" in handles:
            handles.pop("second").remove()
            m.register_forward_hook(lambda m, a, o: log.append("added"))

    module.register_forward_hook(first)
    handles["second"] = module.register_forward_hook(lambda m, a, o: log.append("second"))
    module(leaf([1.0]))
    module(leaf([1.0]))
    assert log == ["first", "second", "first", "added"]


# ---- registration of backward hooks

MIXED = (
    "^Cannot use both regular backward hooks and full backward hooks on a single Module. Please "
    "use only one of them."
)
MIXED_GLOBALLY = (
    "^Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
    "Please use only one of them."
)


def test_full_and_legacy_hooks_do_not_mix_and_the_last_removal_forgets_the_kind():
    module = Double()
    handle = module.register_full_backward_hook(print)
    with pytest.raises(RuntimeError, match=MIXED):
        module.register_backward_hook(print)
    handle.remove()
    handle = module.register_backward_hook(print)
    with pytest.raises(RuntimeError, match=MIXED):
        module.register_full_backward_hook(print)
    handle.remove()
    module.register_full_backward_hook(print)


def test_global_full_and_legacy_hooks_do_not_mix():
    with everywhere.register_module_full_backward_hook(print):
        with pytest.raises(RuntimeError, match=MIXED_GLOBALLY):
            everywhere.register_module_backward_hook(print)
    with everywhere.register_module_backward_hook(print):
        with pytest.raises(RuntimeError, match=MIXED_GLOBALLY):
            everywhere.register_module_full_backward_hook(print)


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_pre_hook",
        "register_forward_hook",
        "register_full_backward_pre_hook",
        "register_full_backward_hook",
        "register_backward_hook",
    ],
)
def test_what_is_not_callable_is_refused_at_registration(register):
    module = Double()
    with pytest.raises(TypeError, match=r"not callable"):
        getattr(module, register)(5)
    assert module._is_full_backward_hook is None


def test_the_tables_can_be_read_cleared_and_rebound(log):
    module = Double()
    handle = module.register_forward_hook(lambda m, a, o: log.append("a"))
    assert list(module._forward_hooks) == [handle.id]
    module._forward_hooks.clear()
    module(leaf([1.0]))
    module._forward_hooks = {1: lambda m, a, o: log.append("b")}
    module(leaf([1.0]))
    assert log == ["b"]


def test_the_global_tables_can_be_rebound(log):
    kept = everywhere._global_forward_hooks
    try:
        everywhere._global_forward_hooks = {1: lambda m, a, o: log.append("rebound")}
        Double()(leaf([1.0]))
    finally:
        everywhere._global_forward_hooks = kept
    Double()(leaf([1.0]))
    assert log == ["rebound"]
