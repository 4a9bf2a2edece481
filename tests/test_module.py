"""Module: registration, attributes, traversal, casting, printing, copies, hook tables."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import gradhook
from gradhook import nn
from gradhook.hooks.registry import HookTable
from gradhook.nn.modules import module as global_hooks


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.register_buffer("count", gradhook.zeros(2))
        self.register_buffer("scratch", gradhook.ones(2), persistent=False)

    def forward(self, x):
        return self.rest(self.first(x))


def scale(module, args):
    return (args[0] * 2,)


# ---- registration and attributes


def test_assigned_parameters_modules_and_buffers_are_registered_in_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias", "rest.1.weight"]
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]


def test_a_shared_parameter_is_named_once_unless_asked():
    net = nn.Module()
    net.a = net.b = nn.Parameter(gradhook.ones(2))
    assert [n for n, _ in net.named_parameters()] == ["a"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)] == ["a", "b"]


def test_a_buffer_object_brings_its_persistence():
    net = nn.Module()
    net.kept = nn.Buffer(gradhook.ones(1))
    net.lost = nn.Buffer(gradhook.ones(1), persistent=False)
    assert list(net.state_dict()) == ["kept"]
    net.kept = gradhook.zeros(1)
    assert float(net.state_dict()["kept"]) == 0


def test_a_buffer_object_does_not_take_the_name_of_a_plain_attribute():
    net = nn.Module()
    net.x = 5
    with pytest.raises(KeyError, match="attribute 'x' already exists"):
        net.x = nn.Buffer(gradhook.ones(1))
    assert net.x == 5


def test_a_write_in_place_by_apply_counts_as_one():
    net = nn.Linear(2, 2)
    y = net.weight.mul(net.weight)
    net._apply(lambda t: t.add_(1.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    kept = net.weight
    assert net.float().weight is kept and net.double().weight.dtype is gradhook.float64


def test_assigning_a_module_over_a_parameter_moves_the_name():
    net = nn.Module()
    net.x = nn.Parameter(gradhook.ones(1))
    net.x = nn.ReLU()
    assert list(net.parameters()) == [] and isinstance(net.x, nn.ReLU)
    net.x = nn.Parameter(gradhook.ones(1))
    assert [n for n, _ in net.named_parameters()] == ["x"] and not net._modules


def test_none_keeps_a_registered_name_as_absent():
    net = nn.Linear(2, 2)
    net.bias = None
    assert net.bias is None and list(net.state_dict()) == ["weight"]
    assert net(gradhook.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("weight", 3, "cannot assign 'int' as parameter 'weight'"),
        ("weight", gradhook.ones(1), "as parameter 'weight'"),
        ("child", "x", "cannot assign 'str' as child module 'child'"),
        ("buffer", [1], "cannot assign 'list' as buffer 'buffer'"),
    ],
)
def test_a_registered_name_takes_no_other_kind_of_value(name, value, text):
    net = nn.Linear(2, 2)
    net.child = nn.ReLU()
    net.register_buffer("buffer", None)
    with pytest.raises(TypeError, match=text):
        setattr(net, name, value)


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("a.b", KeyError, "t contain"),
        ("", KeyError, "t be empty string"),
        ("training", KeyError, "attribute 'training' already exists"),
        (3, TypeError, "name should be a string"),
    ],
)
def test_bad_names_are_refused(name, error, text):
    net = nn.Module()
    with pytest.raises(error, match=text):
        net.register_parameter(name, nn.Parameter(gradhook.ones(1)))
    with pytest.raises(error, match=text):
        net.register_buffer(name, gradhook.ones(1))
    with pytest.raises(error, match=text):
        net.add_module(name, nn.ReLU())


def test_registering_needs_init_first_and_leaves_for_parameters():
    class Late(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(gradhook.ones(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Late()
    leaf = gradhook.ones(2).requires_grad_()
    with pytest.raises(TypeError, match=r"nn.Parameter or None required"):
        nn.Module().register_parameter("x", leaf * 2)
    with pytest.raises(TypeError, match="is not a Module subclass"):
        nn.Module().add_module("x", 3)


def test_missing_attributes_and_missing_forward_are_named():
    net = nn.Module()
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'nothing'"):
        _ = net.nothing
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        net(1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        nn.ReLU.__mro__[2](size=3)


def test_deleting_forgets_the_registration():
    net = Net()
    del net.first, net.scratch
    assert "first" not in net._modules and "scratch" not in net._non_persistent_buffers_set
    assert "rest" in dir(net) and "first" not in dir(net)


def test_dotted_names_find_submodules_parameters_and_buffers():
    net = Net()
    assert net.get_submodule("rest.1") is net.rest[1] and net.get_submodule("") is net
    assert net.get_parameter("first.weight") is net.first.weight
    assert net.get_buffer("count") is net.count
    with pytest.raises(AttributeError, match="has no attribute `third`"):
        net.get_submodule("third")
    with pytest.raises(AttributeError, match=r"is not an nn\.Module"):
        net.get_submodule("first.weight")
    with pytest.raises(AttributeError, match="is not a buffer"):
        net.get_buffer("first.weight")
    net.set_submodule("rest.1", nn.Identity())
    assert isinstance(net.rest[1], nn.Identity)


# ---- all tensors at once


def test_casting_keeps_parameter_objects_and_integers():
    net = nn.BatchNorm1d(3)
    weight = net.weight
    net(gradhook.randn(4, 3)).sum().backward()
    net.double()
    assert net.weight is weight and weight.dtype == gradhook.float64
    assert weight.grad.dtype == gradhook.float64
    assert net.running_mean.dtype == gradhook.float64
    assert net.num_batches_tracked.dtype == gradhook.int64
    assert net.to("cpu", gradhook.float32).weight.dtype == gradhook.float32
    assert net.to(gradhook.zeros(1, dtype=gradhook.float16)).weight.dtype == gradhook.float16
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        net.to(gradhook.int32)


def test_a_cast_module_still_accumulates_gradients():
    net = nn.Linear(2, 1).double()
    net(gradhook.ones(3, 2, dtype=gradhook.float64)).sum().backward()
    assert net.weight.grad.dtype == gradhook.float64
    np.testing.assert_array_equal(net.weight.grad.cpu().numpy(), [[3, 3]])


def test_modes_flags_and_gradients_of_the_whole_tree():
    net = Net()
    assert not any(m.training for m in net.eval().modules())
    assert all(m.training for m in net.train().modules())
    with pytest.raises(ValueError, match="boolean"):
        net.train("yes")
    net(gradhook.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert float(net.first.weight.grad.abs().sum()) == 0
    net.zero_grad()
    assert net.first.weight.grad is None
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_apply_visits_children_before_parents():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


# ---- printing and copies


def test_repr_is_laid_out_as_pytorch_does():
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n  (rest): "
        "Sequential(\n    (0): ReLU()\n    (1): Linear(in_features=4, out_features=2, "
        "bias=False)\n  )\n)"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    )


def test_deepcopy_and_pickle_keep_parameters_hooks_and_values():
    net = Net()
    net.first.register_forward_pre_hook(scale)
    net(gradhook.ones(1, 3)).sum().backward()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(twin.first.weight, nn.Parameter) and twin.first.weight.requires_grad
        assert twin.first.weight is not net.first.weight
        x = gradhook.ones(2, 3)
        np.testing.assert_array_equal(twin(x).detach().cpu().numpy(), net(x).detach().cpu().numpy())
        assert len(twin.first._forward_pre_hooks) == 1
        twin.first._forward_pre_hooks.clear()
        assert len(net.first._forward_pre_hooks) == 1


def test_a_parameter_prints_shares_memory_and_copies_as_pytorch_s():
    data = gradhook.tensor([1.0, 2.0])
    p = nn.Parameter(data)
    assert repr(p.cpu().detach()) == "tensor([1., 2.])"
    assert repr(p).startswith("Parameter containing:\ntensor([1., 2.], ")
    assert repr(p).endswith("requires_grad=True)")
    data.add_(1)
    assert p.detach().tolist() == [2, 3]
    p.grad = gradhook.ones(2)
    p.name = "w"
    twin = copy.deepcopy(p)
    assert type(twin) is nn.Parameter and twin.grad is None and twin.name == "w"
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    with pytest.raises(RuntimeError, match="floating point and complex"):
        nn.Parameter(gradhook.tensor([1]))
    with pytest.raises(TypeError, match="must be a Tensor"):
        nn.Parameter([1.0])


# ---- containers


def test_sequential_slices_renumbers_and_joins():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert [type(m).__name__ for m in net[1:]] == ["ReLU", "Linear"] and net[-1] is net[2]
    del net[1]
    assert list(net._modules) == ["0", "1"]
    net.insert(1, nn.Tanh()).append(nn.Sigmoid())
    assert [type(m).__name__ for m in net] == ["Linear", "Tanh", "Linear", "Sigmoid"]
    assert len(net + net) == 8 and len(net * 2) == 8
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert named.a is named[0]
    with pytest.raises(IndexError, match="index 4 is out of range"):
        net[4]


def test_module_lists_and_dicts_register_what_they_hold():
    held = nn.ModuleList([nn.Linear(1, 1)])
    held += [nn.ReLU()]
    held.insert(0, nn.Tanh())
    assert [type(m).__name__ for m in held] == ["Tanh", "Linear", "ReLU"]
    assert len(list(held.parameters())) == 2
    table = nn.ModuleDict({"a": nn.Linear(1, 1)})
    table["b"] = nn.ReLU()
    assert list(table) == ["a", "b"] and "a" in table and len(table) == 2
    assert isinstance(table.pop("b"), nn.ReLU)
    with pytest.raises(TypeError, match="iterable of key/value pairs"):
        table.update(3)
    weights = nn.ParameterList([gradhook.ones(2), gradhook.ones(1)])
    assert [n for n, _ in weights.named_parameters()] == ["0", "1"]
    assert [n for n, _ in nn.ParameterDict({"w": gradhook.ones(1)}).named_parameters()] == ["w"]


# ---- hook tables


def test_a_module_has_no_hook_tables_until_one_is_asked_for():
    net = nn.ReLU()
    assert not net._hook_kinds and "_forward_hooks" not in net.__dict__
    handle = net.register_forward_hook(lambda m, a, o: None)
    assert net._hook_kinds and isinstance(net._forward_hooks, HookTable)
    handle.remove()
    assert len(net._forward_hooks) == 0


def test_a_plain_dict_assigned_to_a_hook_table_is_wrapped():
    net, seen = nn.ReLU(), []
    net._forward_hooks = OrderedDict({-1: lambda m, a, o: seen.append(o)})
    assert isinstance(net._forward_hooks, HookTable)
    net(gradhook.ones(1))
    assert len(seen) == 1


def test_pytorch_s_side_tables_follow_the_flags():
    net = nn.ReLU()
    a = net.register_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)
    b = net.register_forward_pre_hook(lambda *_: None, with_kwargs=True)
    assert list(net._forward_hooks_with_kwargs) == [a.id]
    assert list(net._forward_hooks_always_called) == [a.id]
    assert list(net._forward_pre_hooks_with_kwargs) == [b.id]


def test_full_and_legacy_backward_hooks_do_not_mix_while_one_is_there():
    net = nn.ReLU()
    handle = net.register_full_backward_hook(lambda *_: None)
    assert net._is_full_backward_hook is True
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        net.register_backward_hook(lambda *_: None)
    handle.remove()
    assert net._is_full_backward_hook is None
    net.register_backward_hook(lambda *_: None)
    assert net._is_full_backward_hook is False
    with pytest.raises(RuntimeError, match="on a single Module"):
        net.register_full_backward_hook(lambda *_: None)


def test_global_hooks_do_not_mix_either_and_their_tables_can_be_rebound():
    handle = global_hooks.register_module_full_backward_hook(lambda *_: None)
    try:
        assert global_hooks._global_is_full_backward_hook is True
        with pytest.raises(RuntimeError, match="as a global Module hook"):
            global_hooks.register_module_backward_hook(lambda *_: None)
    finally:
        handle.remove()
    seen = []
    global_hooks._global_forward_hooks = OrderedDict({-1: lambda m, a, o: seen.append(type(m))})
    try:
        nn.Sequential(nn.ReLU())(gradhook.ones(1))
    finally:
        global_hooks._global_forward_hooks = OrderedDict()
    assert seen == [nn.ReLU, nn.Sequential]
    assert nn.modules.module is global_hooks
