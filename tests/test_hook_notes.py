"""What an error says of the hook that raised it: name, place, module path, node and pass."""

from __future__ import annotations

import inspect
import warnings

import pytest

import gradhook
from gradhook import nn
from gradhook.nn.modules import module as everywhere

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def fails(*args):
    raise ValueError("mine")


def register_at(register):
    """Register `fails`; returns the place of that line."""
    register(fails)
    line = inspect.currentframe().f_lineno - 1
    return f"{__file__}:{line}"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("forward_pre", "forward-pre hook"),
        ("forward", "forward hook"),
        ("full_backward_pre", "full backward pre-hook"),
        ("full_backward", "full backward hook"),
    ],
)
def test_an_error_in_a_module_hook_names_hook_place_path_type_node_and_pass(kind, words):
    model = nn.Sequential()
    model.add_module("net1", nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    model = model.double()
    place = register_at(getattr(model.net1[1], f"register_{kind}_hook"))
    with pytest.raises(ValueError, match="mine") as error:
        model(leaf([[1.0, 2.0]])).sum().backward()
    note = next(n for n in error.value.__notes__ if n.startswith("in "))
    assert f"in {words} 'fails' (registered at {place}) of module 'net1.1' <Linear>" in note
    if kind.startswith("full"):
        assert ", node Module" in note and ", pass #" in note


def test_an_error_in_a_global_hook_names_its_place_and_the_module():
    place = []
    with pytest.raises(ValueError) as error, everywhere.register_module_forward_hook(fails):
        place.append(f"{__file__}:{inspect.currentframe().f_lineno - 1}")
        nn.Sequential(nn.ReLU())(leaf([1.0]))
    assert f"registered at {place[0]}) of module '0' <ReLU>" in error.value.__notes__[0]


def test_errors_in_tensor_node_and_leaf_hooks_name_hook_place_node_and_pass():
    cases = {
        "tensor hook": lambda y, x: y.register_hook,
        "node pre-hook": lambda y, x: y.grad_fn.register_prehook,
        "node hook": lambda y, x: y.grad_fn.register_hook,
        "post-accumulate hook": lambda y, x: x.register_post_accumulate_grad_hook,
    }
    for words, register in cases.items():
        x = leaf([1.0])
        y = x * 2
        place = register_at(register(y, x))
        with pytest.raises(ValueError, match="mine") as error:
            y.sum().backward()
        note = error.value.__notes__[0]
        assert f"in {words} 'fails' (registered at {place})" in note and ", pass #" in note
        assert ("MulBackward0" in note) == (words != "post-accumulate hook")


def test_a_refused_result_names_the_path_and_the_slot():
    model = nn.Sequential()
    model.add_module("fc", nn.Linear(2, 2))
    model = model.double()

    def clip(m, gi, go):
        return (gi[0][:, :1],)

    model.fc.register_full_backward_hook(clip)
    with pytest.raises(RuntimeError) as error:
        model(leaf([[1.0, 2.0]])).sum().backward()
    text = (
        "hook 'clip' has changed the size of value (grad_input[0] of 'fc' <Linear>: "
        "expected (1, 2), got (1, 1))"
    )
    assert str(error.value) == text


def test_a_malformed_pair_of_a_pre_hook_names_hook_and_path():
    model = nn.Sequential(nn.ReLU())
    model[0].register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple.*of '0' <ReLU>"):
        model(leaf([1.0]))


def test_an_interrupt_in_an_always_call_hook_goes_on_with_the_first_error_as_its_context():
    module = nn.ReLU()

    def first(m, a, o):
        raise RuntimeError("first")

    def late(m, a, o):
        raise KeyboardInterrupt

    module.register_forward_hook(first)
    module.register_forward_hook(late, always_call=True)
    with pytest.raises(KeyboardInterrupt) as error:
        module(leaf([1.0]))
    assert str(error.value.__context__) == "first"


def test_the_first_error_keeps_the_later_one_of_an_always_call_hook_as_its_context():
    module = nn.ReLU()

    def first(m, a, o):
        raise RuntimeError("first")

    def late(m, a, o):
        raise ValueError("late")

    module.register_forward_hook(first)
    module.register_forward_hook(late, always_call=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="first") as error:
            module(leaf([1.0]))
    assert type(error.value.__context__) is ValueError
    assert "late" in str(caught[0].message) and "always_call" in str(caught[0].message)


def test_registration_places_survive_copies_and_go_with_removal():
    import copy

    module = nn.ReLU()
    place = register_at(module.register_forward_hook)
    twin = copy.deepcopy(module)
    with pytest.raises(ValueError) as error:
        twin(leaf([1.0]))
    assert place in error.value.__notes__[0]
    module._forward_hooks.clear()
    assert module._forward_hooks.place_of(fails) == ""
