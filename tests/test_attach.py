"""One hook on many modules by name and type, behind one handle."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import nn
from gradhook.hooks import attach, current_call

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def test_attach_registers_by_name_and_type_in_the_models_order_behind_one_handle():
    model = nn.Sequential()
    model.add_module("encoder", nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    model.add_module("head", nn.Linear(2, 1))
    model = model.double()
    log = []

    def hook(m, gi, go):
        log.append(current_call().name)

    with attach(model, hook, name="encoder.*", type=nn.Linear) as handle:
        assert list(handle.handles) == ["encoder.0", "encoder.2"] and len(handle) == 2
        assert all(h.id is not None for h in handle)
        model(leaf([[1.0, 2.0]])).sum().backward()
    assert log == ["encoder.2", "encoder.0"]
    model(leaf([[1.0, 2.0]])).sum().backward()
    assert len(log) == 2
    handle.remove()  # again, does nothing
    assert list(attach(model, hook, name=("head", "")).handles) == ["", "head"]
    assert list(attach(model, hook, type=(nn.ReLU, nn.Sequential)).handles) == [
        "", "encoder", "encoder.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("forward_pre", 2),
        ("forward", 3),
        ("full_backward_pre", 2),
        ("full_backward", 3),
        ("params_ready", 2),
        ("backward", 3),
    ],
)
def test_attach_takes_every_kind_of_module_hook(kind, arguments):
    model, log = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).double(), []
    with attach(model, lambda *a: log.append(len(a)), kind=kind, type=nn.Linear):
        model(leaf([[1.0, 2.0]])).sum().backward()
    assert log == [arguments] * 2


def test_attach_passes_options_on():
    model, log = nn.Sequential(nn.ReLU(), nn.ReLU()), []
    attach(model, lambda m, a: log.append("second"), kind="forward_pre", type=nn.ReLU)
    attach(model, lambda m, a: log.append("1st"), kind="forward_pre", name="0", prepend=True)
    model(leaf([1.0]))
    assert log == ["1st", "second", "second"]


def test_attach_refuses_what_fits_nothing_and_leaves_no_half_registration():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(ValueError, match="found kind 'backwards', expected one of backward, "):
        attach(model, print, kind="backwards")
    with pytest.raises(ValueError, match="no module of Sequential has a name like"):
        attach(model, print, name="encoder.*")
    with pytest.raises(ValueError, match="and the type"):
        attach(model, print, type=nn.Conv2d)
    model[1].register_backward_hook(print)  # legacy: full hooks are refused beside it
    with pytest.raises(RuntimeError, match="Cannot use both"):
        attach(model, print)
    assert not model[0]._backward_hooks and not model._backward_hooks
    with pytest.raises(TypeError, match="not callable"):
        attach(model, 5, kind="forward")
