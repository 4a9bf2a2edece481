"""Lazy modules: shapes from the first call, states before and after it, copies, refusals."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradhook
from gradhook import nn, optim
from gradhook.nn.parameter import is_lazy


def net():
    return nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2, bias=False))


def x(width=4):
    return gradhook.ones(2, width)


# ---- the first call


def test_the_first_call_finds_the_shapes_and_the_module_is_lazy_no_longer():
    model = net()
    assert repr(model[0]) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    assert model(x()).shape == (2, 2)
    assert type(model[0]) is nn.Linear and type(model[0].weight) is nn.Parameter
    assert repr(model[2]) == "Linear(in_features=3, out_features=2, bias=False)"
    assert model[0].weight.shape == (3, 4) and model[0].bias.shape == (3,)
    assert model.hooks() == [] and not hasattr(model[0], "_initialize_hook")
    bound = 4**-0.5
    assert 0 < float(model[0].weight.detach().abs().max()) <= bound


def test_cast_before_the_first_call_holds_after_it():
    model = net().double()
    assert model[0].weight.dtype is gradhook.float64
    assert model(x().double()).dtype is gradhook.float64
    assert nn.LazyLinear(2, dtype=gradhook.float16).weight.dtype is gradhook.float16


def test_hooks_and_optimizers_of_uninitialized_parameters_work_after_the_first_call():
    gradhook.manual_seed(0)  # with other weights the ReLU may let no gradient through
    model, seen = net(), []
    opt = optim.SGD(model.parameters(), lr=0.5)
    model[0].weight.register_hook(lambda g: seen.append(g.shape))
    model(x()).sum().backward()
    before = model[0].weight.tolist()
    opt.step()
    assert seen == [(3, 4)] and model[0].weight.tolist() != before


def test_requires_grad_of_an_uninitialized_parameter_is_kept():
    model = net().requires_grad_(False)
    model(x())
    assert not any(p.requires_grad for p in model.parameters())


def test_forward_hooks_of_a_lazy_module_see_the_initialized_one():
    seen = []
    layer = nn.LazyLinear(3)
    layer.register_forward_hook(lambda m, args, out: seen.append((type(m), out.shape)))
    layer(x())
    assert seen == [(nn.Linear, (2, 3))]


# ---- state


def test_a_state_dict_shows_uninitialized_parameters_and_loads_in_every_combination():
    assert [repr(v) for v in net().state_dict().values()] == ["<UninitializedParameter>"] * 3
    ready, other = net(), net()
    ready(x())
    other.load_state_dict(net().state_dict())
    assert is_lazy(other[0].weight)
    other.load_state_dict(ready.state_dict())
    assert type(other[0]) is nn.LazyLinear and other[0].in_features == 0
    assert other(x()).tolist() == ready(x()).tolist()
    assert type(other[0]) is nn.Linear and other[0].in_features == 4
    with pytest.raises(RuntimeError, match=r"for 0\.weight: Can't access the shape of an uninit"):
        ready.load_state_dict(net().state_dict())


def test_an_input_that_does_not_fit_a_loaded_weight_is_refused():
    layer = nn.LazyLinear(2)
    layer.load_state_dict(nn.Linear(4, 2).state_dict())
    with pytest.raises(AssertionError, match="inferred from input: 5 is not equal"):
        layer(x(5))


def test_a_part_that_was_loaded_keeps_its_values_and_the_first_call_finds_the_rest():
    for name, values in (
        ("weight", gradhook.full((2, 4), 3.0)),
        ("bias", gradhook.full((2,), 3.0)),
    ):
        layer = nn.LazyLinear(2)
        layer.load_state_dict({name: values}, strict=False)
        assert layer(x()).shape == (2, 2) and type(layer) is nn.Linear
        assert layer.state_dict()[name].tolist() == values.tolist()
        assert layer.bias.shape == (2,) and layer.weight.shape == (2, 4)


def test_a_load_that_fails_leaves_the_parameters_uninitialized():
    layer = nn.LazyLinear(2)
    with pytest.raises(RuntimeError, match=r'Missing key.*"bias"'):
        layer.load_state_dict({"weight": gradhook.ones(2, 3)})
    assert is_lazy(layer.weight) and layer(x()).shape == (2, 2)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_lazy_module_are_lazy_and_independent(duplicate):
    model = net().double()
    model[0].weight.requires_grad_(False)
    twin = duplicate(model)
    twin(x(7).double())
    assert twin[0].weight.shape == (3, 7) and not twin[0].weight.requires_grad
    assert type(model[0]) is nn.LazyLinear and is_lazy(model[0].weight)
    assert model(x().double()).shape == (2, 2)


# ---- uninitialized tensors


@pytest.mark.parametrize("make", [nn.UninitializedParameter, nn.UninitializedBuffer])
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t + 1,
        lambda t: gradhook.exp(t),
        lambda t: t.detach(),
        lambda t: len(t),
        lambda t: t.zero_(),
        lambda t: t.numel(),
        lambda t: gradhook.ones(2) * t,
        lambda t: t.view(1),
        lambda t: t.tolist(),
    ],
)
def test_every_use_of_an_uninitialized_tensor_is_refused(make, use):
    refused = pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in")
    with gradhook.no_grad(), refused:  # with gradients a write to a leaf is refused before
        use(make())


@pytest.mark.parametrize("make", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_what_an_uninitialized_tensor_can_do(make):
    t = make(device="cpu", dtype=gradhook.float64)
    assert repr(t) == f"<{make.__name__}>" and t.dtype is gradhook.float64
    assert t.device == gradhook.device("cpu") and t.is_floating_point() and not t.is_complex()
    assert t.is_leaf and t.grad is None and not t.is_cuda and t.get_device() == -1
    for twin in (copy.deepcopy(t), pickle.loads(pickle.dumps(t)), t.half().double()):
        assert type(twin) is make and twin.dtype is gradhook.float64 and twin is not t
        assert twin.requires_grad == t.requires_grad
    for shape in (lambda: t.shape, t.size):
        with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
            shape()
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized"):
        t.share_memory_()
    t.materialize((2, 3), dtype=gradhook.float32)
    assert type(t) is make.cls_to_become and t.shape == (2, 3) and t.dtype is gradhook.float32
    assert (t + 1).shape == (2, 3) and not is_lazy(t)


def test_an_uninitialized_buffer_is_registered_with_its_persistence():
    module = nn.Module()
    module.kept, module.lost = nn.UninitializedBuffer(), nn.UninitializedBuffer(persistent=False)
    assert list(module.state_dict()) == ["kept"] and len(list(module.buffers())) == 2


# ---- own lazy modules


class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """Lazy for ever, with a lazy buffer; initialises from a keyword argument."""

    def __init__(self, forgets=False):
        super().__init__()
        self.forgets = forgets
        self.weight = nn.UninitializedParameter()
        self.register_buffer("count", nn.UninitializedBuffer())

    def initialize_parameters(self, *, input):
        self.weight.materialize(input.shape)
        self.weight.detach().fill_(2.0)
        if not self.forgets:
            self.count.materialize((1,))

    def forward(self, *, input):
        return input * self.weight


def test_a_lazy_module_of_one_s_own_takes_keyword_arguments_and_buffers():
    module = Scale()
    assert module.has_uninitialized_params()
    assert module(input=x()).tolist() == (x() * 2).tolist()
    assert type(module) is Scale and not module.has_uninitialized_params()
    assert module(input=x()).shape == (2, 4)


def test_what_initialize_parameters_forgets_is_an_error():
    with pytest.raises(RuntimeError, match="module Scale has not been fully initialized"):
        Scale(forgets=True)(input=x())


def test_a_lazy_module_without_initialize_parameters_says_so():
    class Bare(nn.modules.lazy.LazyModuleMixin, nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for"):
        Bare()(x())


def test_an_uninitialized_parameter_in_a_plain_module_is_no_target_to_load_into():
    module = nn.Module()
    module.weight = nn.UninitializedParameter()
    with pytest.raises(RuntimeError, match=r"is no LazyModuleMixin; materialize it"):
        module.load_state_dict({"weight": gradhook.ones(1)})
    module.load_state_dict(module.state_dict())
