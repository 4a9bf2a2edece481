"""The older weight_norm and spectral_norm: forward-pre hooks with state hooks."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradhook
from gradhook import nn
from gradhook.nn.utils import (
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
)
from gradhook.nn.utils.spectral_norm import SpectralNorm
from gradhook.nn.utils.weight_norm import WeightNorm, weight_norm


def linear(values=((3.0, 4.0), (0.0, 2.0))):
    module = nn.Linear(2, 2, bias=False)
    module.weight.data = gradhook.tensor(values)
    return module


def weight_normed(module=None, **options):
    with pytest.warns(FutureWarning, match="in favor of `gradhook.nn.utils.parametrizations"):
        return weight_norm(module or linear(), **options)


# ---- weight norm


def test_the_weight_becomes_norms_and_direction_which_each_forward_joins():
    module = weight_normed()
    assert list(module.state_dict()) == ["weight_g", "weight_v"]
    assert module.weight_g.tolist() == [[5.0], [2.0]]
    module.weight_g.data = module.weight_g.data * 10
    out = module(gradhook.ones(1, 2))
    assert out.tolist()[0] == pytest.approx([70.0, 20.0])
    out.sum().backward()
    assert module.weight_g.grad.flatten().tolist() == pytest.approx([7 / 5, 1.0])
    assert module.weight.flatten().tolist() == pytest.approx([30.0, 40.0, 0.0, 20.0])
    assert repr(module) == "Linear(in_features=2, out_features=2, bias=False)"


@pytest.mark.parametrize(("dim", "shape"), [(0, (2, 1)), (1, (1, 2)), (None, ())])
def test_the_norms_along_a_dimension_are_apart(dim, shape):
    module = weight_normed(dim=dim)
    assert module.weight_g.shape == shape
    assert gradhook.allclose(module.weight, module.weight_v)


def test_removing_weight_norm_leaves_the_weight_as_it_is_now():
    module = weight_normed()
    module.weight_g.data = module.weight_g.data * 2
    assert remove_weight_norm(module) is module
    assert list(module.state_dict()) == ["weight"] and not module._forward_pre_hooks
    assert module.weight.flatten().tolist() == pytest.approx([6.0, 8.0, 0.0, 4.0])
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in Linear"):
        remove_weight_norm(module)


def test_a_second_norm_of_one_kind_on_a_tensor_is_refused_and_on_another_is_not():
    module = weight_normed(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="two weight_norm hooks on the same parameter weight"):
        weight_normed(module)
    weight_normed(module, name="bias")
    other = spectral_norm(linear())
    with pytest.raises(RuntimeError, match="two spectral_norm hooks on the same parameter weight"):
        spectral_norm(other)


def test_a_lazy_weight_is_refused():
    with pytest.raises(ValueError, match="`WeightNorm` can't have uninitialized parameters"):
        weight_normed(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="`SpectralNorm` can't have uninitialized parameters"):
        spectral_norm(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="cannot be applied as parameter `bias` is None"):
        spectral_norm(linear(), "bias")


@pytest.mark.parametrize("make", [weight_normed, lambda: spectral_norm(linear())])
def test_a_module_with_a_norm_is_pickled_with_its_hooks(make):
    module = make()
    other = pickle.loads(pickle.dumps(module)).eval()
    x = gradhook.ones(1, 2)
    assert gradhook.allclose(other(x), module.eval()(x))
    assert list(other.state_dict()) == list(module.state_dict())


def test_a_recurrent_layer_reads_the_joined_weight():
    layer = weight_normed(nn.LSTM(2, 3), name="weight_hh_l0")
    before = layer(gradhook.ones(2, 1, 2))[0].tolist()
    layer.weight_hh_l0_g.data = layer.weight_hh_l0_g.data * 2
    after = layer(gradhook.ones(2, 1, 2))[0]
    assert after.tolist()[0] == before[0] and after.tolist()[1] != before[1]
    after.sum().backward()
    assert layer.weight_hh_l0_g.grad is not None


# ---- spectral norm


def test_spectral_norm_divides_by_the_largest_singular_value_of_power_iteration():
    module = spectral_norm(linear([[0.0, 4.0], [-1.0, 0.0]]), n_power_iterations=30)
    assert list(module.state_dict()) == ["weight_orig", "weight_u", "weight_v"]
    out = module(gradhook.tensor([[1.0, 1.0]]))
    assert out.flatten().tolist() == pytest.approx([1.0, -0.25], abs=1e-5)
    out.sum().backward()
    assert module.weight_orig.grad is not None and module.weight.grad_fn is not None


def test_the_vectors_move_in_training_only():
    module = spectral_norm(nn.Linear(5, 4)).eval()
    u = module.weight_u
    before = u.tolist()
    module(gradhook.ones(1, 5))
    assert u.tolist() == before
    module.train()(gradhook.ones(1, 5))
    assert module.weight_u is u and u.tolist() != before


def test_removing_spectral_norm_leaves_the_weight_as_it_is_now_and_no_hook():
    module = spectral_norm(linear()).eval()
    module(gradhook.ones(1, 2))
    weight = module.weight.tolist()
    remove_spectral_norm(module)
    assert list(module.state_dict()) == ["weight"] and module.hooks() == []
    assert module.weight.tolist() == weight and isinstance(module.weight, nn.Parameter)
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found in Linear"):
        remove_spectral_norm(module)


def test_the_state_notes_its_version_and_an_older_state_is_completed():
    module = spectral_norm(linear(), n_power_iterations=20)
    module(gradhook.ones(1, 2))
    state = module.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    older = copy.copy(state)
    del older["weight_v"]
    older["weight"] = module.weight.detach()
    older._metadata = {"": {}}
    other = spectral_norm(linear([[1.0, 0.0], [0.0, 1.0]]))
    other.load_state_dict(older)
    assert gradhook.allclose(other.weight_v, module.weight_v, atol=1e-5)
    x = gradhook.ones(1, 2)
    assert gradhook.allclose(other.eval()(x), module.eval()(x), atol=1e-5)


def test_a_newer_state_without_its_metadata_is_taken_as_it_is():
    module = spectral_norm(linear())
    state = dict(module.state_dict())
    other = spectral_norm(linear())
    other.load_state_dict(state)
    assert other.weight_v.tolist() == module.weight_v.tolist()
    del state["weight_v"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: .*"weight"'):
        other.load_state_dict(state)


def test_the_hooks_can_be_made_and_registered_by_hand():
    with pytest.warns(FutureWarning):
        hook = WeightNorm.apply(linear(), "weight", None)
    assert (hook.name, hook.dim) == ("weight", -1)
    hook = SpectralNorm.apply(linear(), "weight", 2, 0, 1e-12)
    assert (hook.name, hook.n_power_iterations) == ("weight", 2)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        SpectralNorm(n_power_iterations=0)
