"""Registration hooks see, and may replace, every parameter, buffer and child that is registered."""

from __future__ import annotations

import copy

import pytest

import gradhook
from gradhook import nn
from gradhook.hooks import HookTable
from gradhook.nn.modules import module as everywhere

REGISTER = {
    "buffer": everywhere.register_module_buffer_registration_hook,
    "module": everywhere.register_module_module_registration_hook,
    "parameter": everywhere.register_module_parameter_registration_hook,
}


@pytest.fixture
def seen():
    """What the three hooks were called with."""
    log = []
    handles = [
        register(lambda m, name, value, kind=kind: log.append((kind, m, name, value)))
        for kind, register in REGISTER.items()
    ]
    yield log
    for handle in handles:
        handle.remove()


def parameter():
    return nn.Parameter(gradhook.ones(1))


# ---- when they fire


def test_they_fire_once_for_every_way_to_register(seen):
    net = nn.Module()
    p, q, b, c = parameter(), parameter(), gradhook.ones(1), nn.Buffer(gradhook.ones(1))
    child, other = nn.ReLU(), nn.ReLU()
    net.register_parameter("p", p)
    net.q = q
    net.register_buffer("b", b)
    net.c = c
    net.add_module("child", child)
    net.register_module("more", child)
    net.other = other
    assert seen == [
        ("parameter", net, "p", p),
        ("parameter", net, "q", q),
        ("buffer", net, "b", b),
        ("buffer", net, "c", c),
        ("module", net, "child", child),
        ("module", net, "more", child),
        ("module", net, "other", other),
    ]


def test_none_reaches_buffer_and_module_hooks_but_not_parameter_hooks(seen):
    net = nn.Module()
    net.register_parameter("p", None)
    net.register_buffer("b", None)
    net.add_module("m", None)
    net.p, net.b, net.m = parameter(), gradhook.ones(1), nn.ReLU()
    seen.clear()
    net.p = net.b = net.m = None
    assert [entry[0] for entry in seen] == ["buffer", "module"]
    assert [entry[3] for entry in seen] == [None, None]


def test_load_by_assignment_registers_and_copies_casts_and_pickles_do_not(seen):
    net = nn.BatchNorm1d(1)
    seen.clear()
    copy.deepcopy(net.double())
    assert seen == []
    net.load_state_dict(net.state_dict(), assign=True)
    assert sorted(entry[2] for entry in seen) == sorted(net.state_dict())


def test_plain_attributes_are_not_registered(seen):
    net = nn.Module()
    net.number, net.tensor = 3, gradhook.ones(1)
    assert seen == []


# ---- what they return


def test_a_result_takes_the_value_s_place_for_the_next_hook_too():
    log = []
    new, wrapper = parameter(), nn.Sequential()
    net = nn.Module()
    with (
        everywhere.register_module_parameter_registration_hook(lambda m, name, p: new),
        everywhere.register_module_parameter_registration_hook(
            lambda m, name, p: log.append(p is new)
        ),
        everywhere.register_module_module_registration_hook(lambda m, name, c: wrapper),
        everywhere.register_module_buffer_registration_hook(lambda m, name, b: b + 1),
    ):
        net.p, net.child = parameter(), nn.ReLU()
        net.register_buffer("b", gradhook.ones(1))
    assert net.p is new and log == [True]
    assert net.child is wrapper and net.b.tolist() == [2]
    net.p = kept = parameter()
    assert net.p is kept


@pytest.mark.parametrize(
    ("kind", "bad", "expected"),
    [
        ("parameter", 5, "returned a int for 'x' of <Module>, expected gradhook's Parameter"),
        ("parameter", gradhook.ones(1), "returned a Tensor for 'x'"),
        ("buffer", [1.0], "returned a list for 'x' of <Module>, expected gradhook's Tensor"),
        ("module", gradhook.ones, "expected gradhook's Module or None"),
    ],
)
def test_a_result_of_another_kind_is_refused_and_nothing_is_registered(kind, bad, expected):
    def wrong(module, name, value):
        return bad

    net = nn.Module()
    value = {"parameter": parameter, "buffer": lambda: gradhook.ones(1), "module": nn.ReLU}[kind]()
    with REGISTER[kind](wrong), pytest.raises(TypeError, match=expected) as error:
        getattr(net, f"register_{kind}")("x", value)
    assert "registration hook 'wrong'" in str(error.value)
    assert not hasattr(net, "x")


# ---- tables


@pytest.mark.parametrize("kind", REGISTER)
def test_a_hook_may_remove_itself_and_register_others_while_its_kind_fires(kind):
    log, handles = [], []

    def once(*args):
        log.append("once")
        handles[0].remove()
        handles.append(REGISTER[kind](lambda *args: log.append("new")))

    handles += [REGISTER[kind](once), REGISTER[kind](lambda *args: log.append("last"))]
    try:
        for name in ("a", "b"):
            getattr(nn.Module(), f"register_{kind}")(
                name, nn.ReLU() if kind == "module" else parameter()
            )
    finally:
        for handle in handles:
            handle.remove()
    assert log == ["once", "last", "last", "new"]


@pytest.mark.parametrize("kind", REGISTER)
def test_pytorch_s_global_tables_may_be_rebound(kind):
    log, name = [], f"_global_{kind}_registration_hooks"
    kept = getattr(everywhere, name)
    setattr(everywhere, name, {-1: lambda *args: log.append(args[1])})
    try:
        assert isinstance(getattr(everywhere, name), HookTable)
        getattr(nn.Module(), f"register_{kind}")("x", nn.ReLU() if kind == "module" else None)
        if kind == "parameter":
            nn.Module().x = parameter()
    finally:
        setattr(everywhere, name, kept)
    assert log == ["x"]


def test_an_error_in_a_hook_says_whose_hook_it_was():
    def fails(*args):
        raise ZeroDivisionError

    with (
        everywhere.register_module_parameter_registration_hook(fails),
        pytest.raises(ZeroDivisionError) as error,
    ):
        nn.Linear(1, 1)
    (note,) = error.value.__notes__
    assert note.startswith(f"in registration hook 'fails' (registered at {__file__}:")
    assert note.endswith(") of module <Linear>")


# ---- buffers


def test_assigning_a_tensor_to_a_buffer_keeps_its_persistence_and_calls_register_buffer():
    class Notes(nn.Module):
        calls = 0

        def register_buffer(self, name, tensor, persistent=True):
            type(self).calls += 1
            super().register_buffer(name, tensor, persistent)

    net = Notes()
    net.register_buffer("b", gradhook.ones(1), persistent=False)
    net.b = gradhook.zeros(1)
    assert Notes.calls == 2 and net.b.tolist() == [0] and not net.state_dict()


def test_an_override_of_register_buffer_without_persistent_works_for_persistent_ones():
    class Old(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor, True)

    net = Old()
    net.b = nn.Buffer(gradhook.ones(1))
    net.b = gradhook.zeros(1)
    assert list(net.state_dict()) == ["b"]
    with pytest.raises(RuntimeError, match="without the persistent argument is not allowed"):
        net.c = nn.Buffer(gradhook.ones(1), persistent=False)
