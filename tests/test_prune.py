"""nn.utils.prune: entries and channels set to 0 by a mask."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradhook
from gradhook import nn, optim
from gradhook.nn.utils import prune


def linear(values=((1.0, -4.0), (3.0, -2.0))):
    weight = gradhook.tensor(values)
    module = nn.Linear(weight.shape[1], weight.shape[0])
    module.weight.data = weight
    return module


def zeros_of(module):
    return (module.weight_mask == 0).sum().item()


# ---- which go


def test_l1_unstructured_prunes_the_entries_of_the_smallest_absolute_value():
    module = linear()
    assert prune.l1_unstructured(module, "weight", amount=2) is module
    assert module.weight.tolist() == [[0.0, -4.0], [3.0, 0.0]]
    assert module.weight_mask.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert module.weight_orig.tolist() == [[1.0, -4.0], [3.0, -2.0]]
    assert sorted(module.state_dict()) == ["bias", "weight_mask", "weight_orig"]


def test_importance_scores_are_judged_instead_of_the_values():
    scores = gradhook.tensor([[5.0, 1.0], [5.0, 5.0]])
    module = prune.l1_unstructured(linear(), "weight", amount=1, importance_scores=scores)
    assert module.weight.tolist() == [[1.0, 0.0], [3.0, -2.0]]
    with pytest.raises(AssertionError, match="should have the same shape as parameter weight of"):
        prune.l1_unstructured(linear(), "weight", amount=1, importance_scores=gradhook.ones(2))


@pytest.mark.parametrize(("amount", "count"), [(0, 0), (3, 3), (0.5, 6), (0.3, 4), (1.0, 12)])
@pytest.mark.parametrize("prune_by", [prune.random_unstructured, prune.l1_unstructured])
def test_an_amount_is_a_number_of_entries_or_a_share(prune_by, amount, count):
    module = prune_by(nn.Linear(4, 3), "weight", amount=amount)
    assert zeros_of(module) == count and (module.weight != 0).sum().item() == 12 - count


# columns of 1-norm 4.05, 2.8, 4.3; 2-norm 3.16, 2.52, 2.84; maximum 3, 2.5, 2; minimum .05, .1, .3
@pytest.mark.parametrize(("n", "gone"), [(1, 1), (2, 1), (float("inf"), 2), (float("-inf"), 0)])
def test_ln_structured_prunes_the_channels_of_the_smallest_norm(n, gone):
    module = linear([[3.0, 0.1, 2.0], [-1.0, 2.5, -2.0], [0.05, 0.2, 0.3]])
    prune.ln_structured(module, "weight", amount=1, n=n, dim=1)
    assert module.weight_mask.sum(dim=0).tolist() == [0.0 if i == gone else 3.0 for i in range(3)]


@pytest.mark.parametrize(("dim", "channels"), [(0, 4), (1, 3), (-1, 2)])
def test_random_structured_prunes_whole_channels(dim, channels):
    module = nn.Conv1d(3, 4, 2)
    prune.random_structured(module, "weight", amount=1, dim=dim)
    others = [d for d in range(3) if d != dim % 3]
    sums = module.weight_mask.sum(dim=others).tolist()
    assert sorted(sums) == [0.0] + [24 / channels] * (channels - 1)


def test_identity_prunes_nothing_and_custom_from_mask_what_it_is_told():
    assert zeros_of(prune.identity(linear(), "weight")) == 0
    mask = gradhook.tensor([[0, 1], [1, 1]])
    module = prune.custom_from_mask(linear(), "weight", mask)
    assert module.weight.tolist() == [[0.0, -4.0], [3.0, -2.0]]
    with pytest.raises(AssertionError, match=r"must match self.mask shape"):
        prune.custom_from_mask(linear(), "weight", gradhook.ones(3))


def test_global_pruning_judges_all_parameters_together():
    first, second = linear([[1.0, 10.0]]), linear([[2.0], [20.0]])
    pairs = iter([(first, "weight"), (second, "weight")])
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=2)
    assert first.weight.tolist() == [[0.0, 10.0]] and second.weight.tolist() == [[0.0], [20.0]]
    scores = {(first, "weight"): gradhook.tensor([[9.0, 9.0]])}
    prune.global_unstructured(
        [(first, "weight"), (second, "weight")], prune.L1Unstructured, scores, amount=1
    )
    assert first.weight.tolist() == [[0.0, 0.0]] and second.weight.tolist() == [[0.0], [20.0]]


def test_global_pruning_takes_unstructured_methods_only():
    pairs = [(linear(), "weight")]
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured(pairs, prune.LnStructured, amount=1, n=2)
    with pytest.raises(TypeError, match="parameters is not an Iterable"):
        prune.global_unstructured(3, prune.L1Unstructured, amount=1)
    with pytest.raises(TypeError, match="importance_scores must be of type dict"):
        prune.global_unstructured(pairs, prune.L1Unstructured, [1], amount=1)


# ---- training


def test_only_what_is_left_gets_a_gradient_and_each_forward_masks_anew():
    module = prune.l1_unstructured(linear(), "weight", amount=2)
    module(gradhook.ones(1, 2)).sum().backward()
    assert module.weight_orig.grad.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    optim.SGD([module.weight_orig], lr=1.0).step()
    module(gradhook.ones(1, 2))
    assert module.weight.tolist() == [[0.0, -5.0], [2.0, 0.0]]


def test_pruning_again_goes_on_with_what_is_left():
    module = prune.l1_unstructured(linear(), "weight", amount=1)
    prune.l1_unstructured(module, "weight", amount=1)
    assert module.weight.tolist() == [[0.0, -4.0], [3.0, 0.0]]
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    assert module.weight.tolist() == [[0.0, -4.0], [0.0, 0.0]]
    (hook,) = module._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3
    assert [type(m).__name__ for m in hook] == ["L1Unstructured", "L1Unstructured", "LnStructured"]
    assert hook[-1].amount == 1 and hook._tensor_name == "weight"


def test_removing_makes_the_pruning_permanent_in_the_same_parameter():
    module = linear()
    weight = module.weight
    prune.l1_unstructured(module, "weight", amount=2)
    assert prune.is_pruned(nn.Sequential(module)) and module.weight_orig is weight
    assert prune.remove(module, "weight") is module
    assert module.weight is weight and weight.tolist() == [[0.0, -4.0], [3.0, 0.0]]
    assert not prune.is_pruned(module) and module.hooks() == []
    assert sorted(module.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match=r"Parameter 'weight' of module Linear.* has to be pruned"):
        prune.remove(module, "weight")


def test_two_parameters_of_a_module_are_pruned_apart():
    module = prune.l1_unstructured(nn.Linear(3, 2), "weight", amount=1)
    prune.random_unstructured(module, "bias", amount=1)
    assert len(module._forward_pre_hooks) == 2
    prune.remove(module, "weight")
    assert sorted(module.state_dict()) == ["bias_mask", "bias_orig", "weight"]


def test_a_pruned_module_is_pickled_and_its_state_loads():
    module = prune.l1_unstructured(linear(), "weight", amount=2)
    other = pickle.loads(pickle.dumps(module))
    x = gradhook.ones(1, 2)
    assert gradhook.allclose(other(x), module(x))
    third = prune.identity(linear([[9.0, 9.0], [9.0, 9.0]]), "weight")
    third.load_state_dict(module.state_dict())
    assert gradhook.allclose(third(x), module(x))
    prune.remove(module, "weight")
    assert copy.deepcopy(module).weight.tolist() == [[0.0, -4.0], [3.0, 0.0]]


# ---- methods


def test_prune_gives_the_pruned_tensor_and_leaves_its_arguments_alone():
    t, mask = gradhook.tensor([1.0, -4.0, 3.0]), gradhook.ones(3)
    assert prune.L1Unstructured(amount=1).prune(t, default_mask=mask).tolist() == [0.0, -4.0, 3.0]
    assert mask.tolist() == [1.0, 1.0, 1.0]
    container = prune.PruningContainer()
    container._tensor_name = "t"
    method = prune.L1Unstructured(amount=1)
    method._tensor_name = "t"
    container.add_pruning_method(method)
    held = gradhook.tensor([1.0, 0.0, 1.0])
    assert container.compute_mask(t, held).tolist() == [0.0, 0.0, 1.0]
    assert held.tolist() == [1.0, 0.0, 1.0]


def test_a_method_of_one_s_own_prunes_what_it_says():
    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    module = linear()
    EverySecond.apply(module, "weight")
    assert module.weight.tolist() == [[0.0, -4.0], [0.0, -2.0]]
    EverySecond.apply(module, "weight")
    assert module.weight.tolist() == [[0.0, 0.0], [0.0, -2.0]]
    with pytest.raises(TypeError, match="abstract"):
        prune.BasePruningMethod()


def test_a_container_takes_methods_of_its_tensor_only():
    container = prune.PruningContainer()
    container._tensor_name = "weight"
    with pytest.raises(TypeError, match="is not a BasePruningMethod subclass"):
        container.add_pruning_method(10)
    method = prune.Identity()
    method._tensor_name = "bias"
    with pytest.raises(ValueError, match=r"acting on the parameter named 'weight'.*Found 'bias'"):
        container.add_pruning_method(method)


class Typed(prune.BasePruningMethod):
    def __init__(self, kind, **attributes):
        self.PRUNING_TYPE, self._tensor_name = kind, "t"
        self.__dict__.update(attributes)

    def compute_mask(self, t, default_mask):
        return default_mask * 0


@pytest.mark.parametrize(
    ("method", "error", "text"),
    [
        (Typed("sideways"), ValueError, "Unrecognized PRUNING_TYPE sideways"),
        (Typed("structured"), AttributeError, "need to have the attribute `dim` defined"),
        (Typed("structured", dim=-3), IndexError, "out of bounds for tensor with dimensions 2"),
    ],
)
def test_a_container_refuses_a_method_that_does_not_say_what_it_takes(method, error, text):
    with pytest.raises(error, match=text):
        prune.PruningContainer(method).compute_mask(gradhook.ones(2, 2), gradhook.ones(2, 2))


@pytest.mark.parametrize(
    ("amount", "error"), [("a", TypeError), (1.1, ValueError), (-0.1, ValueError), (-1, ValueError)]
)
def test_an_amount_that_is_none_is_refused(amount, error):
    for call in (
        lambda: prune.random_unstructured(linear(), "weight", amount),
        lambda: prune.ln_structured(linear(), "weight", amount, 2, 0),
    ):
        with pytest.raises(error):
            call()


class NoTensor(Typed):
    def __init__(self):
        super().__init__("global")

    def compute_mask(self, t, default_mask):
        return "no mask"


@pytest.mark.parametrize("pruned_before", [False, True])
@pytest.mark.parametrize(
    "fail",
    [
        lambda m: prune.l1_unstructured(m, "weight", amount=100),
        lambda m: prune.random_structured(m, "weight", amount=1, dim=7),
        lambda m: prune.custom_from_mask(m, "weight", gradhook.ones(3)),
        lambda m: NoTensor.apply(m, "weight"),
    ],
)
def test_after_an_error_the_module_is_as_it_was(fail, pruned_before):
    module = linear()
    if pruned_before:
        prune.l1_unstructured(module, "weight", amount=1)
    names, hooks, weight = list(module.state_dict()), module.hooks(), module.weight
    with pytest.raises((ValueError, IndexError, AssertionError, TypeError, AttributeError)):
        fail(module)
    assert list(module.state_dict()) == names and module.hooks() == hooks
    assert module.weight is weight and module(gradhook.ones(1, 2)).shape == (1, 2)


def test_a_buffer_and_a_vector_are_refused_where_they_do_not_fit():
    module = nn.BatchNorm1d(3)
    with pytest.raises(TypeError, match="running_mean_orig"):
        prune.l1_unstructured(module, "running_mean", amount=1)
    assert "running_mean" in module._buffers
    with pytest.raises(ValueError, match="only be applied to multidimensional tensors"):
        prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
