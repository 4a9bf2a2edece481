"""nn.utils.parametrize: a parameter or buffer as a function of others."""

from __future__ import annotations

import copy
import pickle

import pytest
from arrays import share_memory

import gradhook
from gradhook import nn, optim
from gradhook.nn.utils import parametrize as P


class Double(nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


class Shift(nn.Module):
    def forward(self, x):
        return x + 1

    def right_inverse(self, x):
        return x - 1


class Forward(nn.Module):
    """No right_inverse."""

    def forward(self, x):
        return x * 3


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x * 0.25, x * 0.75


def linear(values=((1.0, 2.0), (3.0, 4.0))):
    module = nn.Linear(2, 2, bias=False)
    module.weight.data = gradhook.tensor(values)
    return module


def doubled():
    return P.register_parametrization(linear(), "weight", Double())


# ---- registering and reading


def test_the_tensor_is_computed_from_its_original_which_stays_the_same_object():
    module = linear()
    weight = module.weight
    assert P.register_parametrization(module, "weight", Double()) is module
    assert module.parametrizations.weight.original is weight
    assert weight.tolist() == [[0.5, 1.0], [1.5, 2.0]]
    assert module.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert "weight" not in module._parameters and [*module.parameters()] == [weight]


def test_without_a_right_inverse_the_original_keeps_its_value():
    module = P.register_parametrization(linear(), "weight", Forward())
    assert module.weight.tolist() == [[3.0, 6.0], [9.0, 12.0]]
    with pytest.raises(RuntimeError, match="parametrization Forward does not implement right_inv"):
        module.weight = gradhook.ones(2, 2)


def test_the_gradient_goes_through_to_the_original():
    module = doubled()
    module(gradhook.tensor([[1.0, 10.0]])).sum().backward()
    assert module.parametrizations.weight.original.grad.tolist() == [[2.0, 20.0], [2.0, 20.0]]


def test_parametrizations_are_applied_in_the_order_of_registration_and_inverted_backwards():
    module = P.register_parametrization(doubled(), "weight", Shift())
    assert module.weight.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    module.weight = gradhook.tensor([[3.0, 5.0], [7.0, 9.0]])
    assert module.parametrizations.weight.original.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert module.weight.tolist() == [[3.0, 5.0], [7.0, 9.0]]


def test_a_right_inverse_of_several_tensors_gives_several_originals():
    module = P.register_parametrization(linear([[4.0, 8.0], [0.0, 4.0]]), "weight", Sum())
    assert list(module.state_dict()) == [
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    assert module.parametrizations.weight.original1.tolist() == [[3.0, 6.0], [0.0, 3.0]]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in module.parameters())
    module.weight = gradhook.full((2, 2), 8.0)
    assert module.parametrizations.weight.original0.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_buffer_stays_a_buffer():
    module = nn.Module()
    module.register_buffer("scale", gradhook.ones(2))
    P.register_parametrization(module, "scale", Double())
    assert module.scale.tolist() == [1.0, 1.0] and not module.scale.requires_grad
    assert list(module.state_dict()) == ["parametrizations.scale.original"]
    assert not [*module.parameters()]
    P.remove_parametrizations(module, "scale")
    assert list(module._buffers) == ["scale"] and module.scale.tolist() == [1.0, 1.0]


def test_the_class_has_the_name_of_the_base_and_prints_its_parametrizations():
    module = doubled()
    assert type(module).__name__ == "ParametrizedLinear" and isinstance(module, nn.Linear)
    assert P.type_before_parametrizations(module) is nn.Linear
    assert P.type_before_parametrizations(linear()) is nn.Linear
    assert repr(module) == (
        "ParametrizedLinear(\n  in_features=2, out_features=2, bias=False\n"
        "  (parametrizations): ModuleDict(\n    (weight): ParametrizationList(\n"
        "      (0): Double()\n    )\n  )\n)"
    )


def test_is_parametrized_asks_for_one_tensor_or_any():
    module = nn.Linear(2, 2)
    assert not P.is_parametrized(module)
    P.register_parametrization(module, "bias", Double())
    assert P.is_parametrized(module) and P.is_parametrized(module, "bias")
    assert not P.is_parametrized(module, "weight")


def test_the_mode_is_that_of_the_module():
    module, parametrization = linear().eval(), Double()
    P.register_parametrization(module, "weight", parametrization)
    assert not parametrization.training
    module.train()
    assert parametrization.training


def test_an_optimizer_made_before_goes_on_with_the_original():
    module = linear()
    optimizer = optim.SGD(module.parameters(), lr=1.0)
    P.register_parametrization(module, "weight", Double())
    module.weight.sum().backward()
    optimizer.step()
    assert module.parametrizations.weight.original.tolist() == [[-1.5, -1.0], [-0.5, 0.0]]


def test_casting_and_moving_reach_the_originals():
    module = doubled().double()
    assert module.weight.dtype == gradhook.float64
    assert module.to("cpu").weight.device == gradhook.device("cpu")


def test_hooks_of_the_module_and_of_the_parametrization_fire():
    module, seen = doubled(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    module.parametrizations.weight[0].register_forward_hook(lambda m, a, out: out * 10)
    module.parametrizations.weight[0].register_full_backward_hook(
        lambda m, gi, go: seen.append(go[0].tolist())
    )
    out = module(gradhook.ones(1, 2))
    out.sum().backward()
    assert out.tolist() == [[30.0, 70.0]]
    assert seen == [[[1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]  # of what the forward hook returned


# ---- removing


def test_removing_leaves_the_value_in_the_same_object():
    module = linear()
    weight, before = module.weight, type(module)
    P.register_parametrization(module, "weight", Forward())
    P.remove_parametrizations(module, "weight")
    assert module.weight is weight and type(module) is before
    assert weight.is_leaf and weight.tolist() == [[3.0, 6.0], [9.0, 12.0]]
    assert not hasattr(module, "parametrizations") and list(module.state_dict()) == ["weight"]


def test_removing_may_leave_the_original_value():
    module = P.register_parametrization(linear(), "weight", Forward())
    P.remove_parametrizations(module, "weight", leave_parametrized=False)
    assert module.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_removing_one_of_two_leaves_the_other():
    module = nn.Linear(2, 2)
    P.register_parametrization(module, "weight", Double())
    P.register_parametrization(module, "bias", Double())
    P.remove_parametrizations(module, "weight")
    assert not P.is_parametrized(module, "weight") and P.is_parametrized(module, "bias")
    assert type(module).__name__ == "ParametrizedLinear" and "weight" in module._parameters
    P.remove_parametrizations(module, "bias")
    assert type(module) is nn.Linear


def test_several_originals_become_one_new_parameter():
    module = P.register_parametrization(linear(), "weight", Sum())
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        P.remove_parametrizations(module, "weight", leave_parametrized=False)
    P.remove_parametrizations(module, "weight")
    assert isinstance(module.weight, nn.Parameter) and module.weight.is_leaf
    assert module.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]]


# ---- copies and state


def test_a_copy_can_lose_its_parametrization_alone():
    module = doubled()
    other = copy.deepcopy(module)
    assert type(other) is type(module) and not share_memory(other.weight, module.weight)
    P.remove_parametrizations(other, "weight")  # in PyTorch module.weight is gone then, too
    assert module.weight.tolist() == other.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert P.is_parametrized(module) and not P.is_parametrized(other)


def test_a_copy_keeps_a_shared_parametrization_shared():
    shared, model = Double(), nn.Sequential(linear(), linear())
    for layer in model:
        P.register_parametrization(layer, "weight", shared)
    first, second = copy.deepcopy(model)
    assert first.parametrizations.weight[0] is second.parametrizations.weight[0] is not shared


def test_a_class_of_a_module_s_own_deepcopy_keeps_it():
    class Own(nn.Linear):
        def __deepcopy__(self, memo):
            return "a copy"

    module = P.register_parametrization(Own(2, 2), "weight", Double())
    assert copy.deepcopy(module) == "a copy"


@pytest.mark.parametrize("saved", [pickle.dumps, copy.copy])
def test_a_parametrized_module_is_saved_by_its_state_dict_only(saved):
    with pytest.raises(RuntimeError, match=r"only supported through state_dict\(\)"):
        saved(doubled())


def test_a_state_dict_goes_from_one_module_to_another():
    module = P.register_parametrization(doubled(), "weight", Shift())
    other = P.register_parametrization(linear([[9.0, 9.0], [9.0, 9.0]]), "weight", Double())
    P.register_parametrization(other, "weight", Shift())
    assert str(other.load_state_dict(module.state_dict())) == "<All keys matched successfully>"
    assert other.weight.tolist() == module.weight.tolist()


def test_transferring_shares_originals_and_leaves_the_source_as_it_was():
    for parametrized in (
        P.register_parametrization(doubled(), "weight", Shift()),
        P.register_parametrization(linear(), "weight", Sum()),
        nn.utils.parametrizations.orthogonal(linear([[0.0, 1.0], [1.0, 0.0]])),
    ):
        before, other = parametrized.weight.tolist(), nn.Linear(2, 2, bias=False)
        assert P.transfer_parametrizations_and_params(parametrized, other) is other
        assert other.weight.tolist() == parametrized.weight.tolist() == before
        assert list(other.state_dict()) == list(parametrized.state_dict())
        theirs = [*parametrized.parameters()]
        assert all(a is b for a, b in zip(other.parameters(), theirs, strict=True))
    P.remove_parametrizations(other, "weight")
    assert P.is_parametrized(parametrized, "weight")


def test_transferring_makes_what_is_missing_and_takes_one_tensor():
    module, other = doubled(), linear()
    module.gain = nn.Parameter(gradhook.ones(1))
    P.register_parametrization(module, "gain", Double())
    P.transfer_parametrizations_and_params(module, other, "gain")
    assert other.gain.tolist() == [1.0] and not P.is_parametrized(other, "weight")
    P.transfer_parametrizations_and_params(linear(), other)
    assert not P.is_parametrized(other, "weight")


# ---- cached


def counting(module):
    calls = []
    module.parametrizations.weight[0].register_forward_hook(lambda *args: calls.append(1))
    return calls


def test_cached_computes_once_until_its_end():
    module = doubled()
    calls = counting(module)
    with P.cached():
        assert module.weight is module.weight
        with P.cached():
            kept = module.weight
        assert module.weight is kept and len(calls) == 1
    assert module.weight is not kept and len(calls) == 2


def test_cached_ends_with_an_error():
    module = doubled()
    with pytest.raises(ZeroDivisionError), P.cached():
        kept = module.weight
        raise ZeroDivisionError
    assert module.weight is not kept


def test_an_assignment_forgets_what_is_cached():
    module = doubled()
    with P.cached():
        assert module.weight.tolist() != [[8.0, 8.0], [8.0, 8.0]]
        module.weight = gradhook.full((2, 2), 8.0)
        assert module.weight.tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_a_copy_has_a_cache_of_its_own():
    module = doubled()
    other = copy.deepcopy(module)
    other.weight = gradhook.zeros(2, 2)
    with P.cached():
        assert module.weight.tolist() != other.weight.tolist()
