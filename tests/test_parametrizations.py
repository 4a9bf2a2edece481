"""nn.utils.parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

import warnings

import pytest

import gradhook
from gradhook import nn, optim
from gradhook.nn.utils import parametrizations, parametrize
from gradhook.nn.utils import spectral_norm as older_spectral_norm
from gradhook.nn.utils import weight_norm as older_weight_norm


def linear(values, kind=nn.Linear):
    weight = gradhook.tensor(values, dtype=gradhook.float64)
    module = kind(weight.shape[1], weight.shape[0], bias=False, dtype=gradhook.float64)
    module.weight.data = weight
    return module


# ---- weight norm

# w = g v / |v|; with the gradient d of w: dg = d.v / |v|, dv = g / |v| (d - (d.v) v / |v|^2)


def test_weight_norm_keeps_the_weight_and_splits_it_into_norms_and_direction():
    module = parametrizations.weight_norm(linear([[3.0, 4.0], [0.0, 2.0]]))
    originals = module.parametrizations.weight
    assert originals.original0.tolist() == [[5.0], [2.0]]
    assert originals.original1.tolist() == module.weight.tolist() == [[3.0, 4.0], [0.0, 2.0]]
    module(gradhook.tensor([[1.0, 0.0]], dtype=gradhook.float64)).sum().backward()
    assert originals.original0.grad.flatten().tolist() == pytest.approx([0.6, 0.0])
    expected = [1 - 3 * 3 / 25, -3 * 4 / 25, 1.0, 0.0]
    assert originals.original1.grad.flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("dim", "norms"),
    [(0, [[5.0], [2.0]]), (1, [[3.0, 20**0.5]]), (-2, [[5.0], [2.0]]), (None, 29**0.5)],
)
def test_weight_norm_keeps_the_norms_along_one_dimension_apart(dim, norms):
    module = parametrizations.weight_norm(linear([[3.0, 4.0], [0.0, 2.0]]), dim=dim)
    found = module.parametrizations.weight.original0
    assert gradhook.allclose(found, gradhook.tensor(norms, dtype=gradhook.float64))
    assert found.ndim == (0 if dim is None else 2)
    module.weight = gradhook.full((2, 2), 7.0, dtype=gradhook.float64)
    assert module.weight.flatten().tolist() == pytest.approx([7.0] * 4)


def test_weight_norm_of_a_vector_divides_by_its_absolute_values():
    module = nn.Linear(1, 3)
    parametrizations.weight_norm(module, "bias")
    assert (module.parametrizations.bias.original0 >= 0).all()
    assert module.bias.shape == (3,)


def test_weight_norm_refuses_a_dimension_that_is_none():
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 2"):
        parametrizations.weight_norm(nn.Linear(2, 2), dim=2)


def test_weight_norm_loads_the_state_of_its_older_form():
    with pytest.warns(FutureWarning):
        older = older_weight_norm(nn.Sequential(nn.Linear(2, 2))[0])
    older.weight_g.data = older.weight_g.data * 2
    module = parametrizations.weight_norm(nn.Linear(2, 2))
    module.load_state_dict(older.state_dict())
    x = gradhook.ones(1, 2)
    assert gradhook.allclose(module(x), older(x))


# ---- spectral norm


def test_spectral_norm_divides_by_the_largest_singular_value():
    module = parametrizations.spectral_norm(linear([[0.0, 3.0], [-1.0, 0.0]]))
    assert module.eval().weight.flatten().tolist() == pytest.approx([0, 1, -1 / 3, 0], abs=1e-6)
    assert list(module.state_dict()) == [
        "parametrizations.weight.original",
        "parametrizations.weight.0._u",
        "parametrizations.weight.0._v",
    ]


def test_spectral_norm_iterates_when_it_is_read_in_training_only():
    gradhook.manual_seed(2)
    module = parametrizations.spectral_norm(nn.Linear(40, 30))
    norm = module.parametrizations.weight[0]
    module.eval()
    before = norm._u.tolist()
    module(gradhook.ones(1, 40))
    assert norm._u.tolist() == before
    module.train()
    u = norm._u
    module(gradhook.ones(1, 40))
    assert norm._u is u and u.tolist() != before
    for _ in range(1000):
        module.weight  # noqa: B018
    assert gradhook.linalg.matrix_norm(module.weight, 2).item() == pytest.approx(1, abs=1e-4)


def test_spectral_norm_is_differentiable_through_two_forwards_before_one_backward():
    module = parametrizations.spectral_norm(nn.Linear(3, 4, bias=False))
    loss = module(gradhook.ones(2, 3)).sum() - module(gradhook.zeros(2, 3)).sum()
    loss.backward()
    assert module.parametrizations.weight.original.grad is not None


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_the_gradient_of_spectral_norm_agrees_with_finite_differences(dim):
    module = nn.Conv2d(2, 3, 2, dtype=gradhook.float64, bias=False)
    parametrizations.spectral_norm(module, dim=dim).eval()
    norm = module.parametrizations.weight[0]
    weight = module.parametrizations.weight.original.detach().clone().requires_grad_()
    assert gradhook.autograd.gradcheck(norm, (weight,))


def test_spectral_norm_of_a_transposed_convolution_takes_its_second_dimension_for_outputs():
    for kind, dim in ((nn.Conv1d, 0), (nn.ConvTranspose1d, 1)):
        module = parametrizations.spectral_norm(kind(3, 4, 2))
        assert module.parametrizations.weight[0].dim == dim
        assert older_spectral_norm(kind(3, 4, 2)).weight_u.shape == (4,)


def test_spectral_norm_of_a_vector_is_exact():
    module = nn.Linear(1, 2)
    module.bias.data = gradhook.tensor([3.0, 4.0])
    parametrizations.spectral_norm(module, "bias")
    assert module.bias.tolist() == pytest.approx([0.6, 0.8])
    assert list(module.parametrizations.bias[0]._buffers) == []


def test_spectral_norm_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'gain'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "gain")
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\] but got 2"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=2)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


# ---- orthogonal

MAPS = ["matrix_exp", "cayley", "householder"]


def distance_from_orthogonal(weight):
    q = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
    return (q.mH @ q - gradhook.eye(q.shape[-1], dtype=q.dtype)).abs().max().item()


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 5)])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("use_trivialization", [True, False])
def test_orthogonal_is_orthogonal_and_stays_so_while_it_learns(shape, name, use_trivialization):
    module = nn.Module()
    module.weight = nn.Parameter(gradhook.randn(*shape, dtype=gradhook.float64))
    parametrizations.orthogonal(module, orthogonal_map=name, use_trivialization=use_trivialization)
    assert module.weight.shape == shape and distance_from_orthogonal(module.weight) < 1e-12
    target = gradhook.randn(*shape, dtype=gradhook.float64)
    optimizer = optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = ((module.weight - target) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0] and distance_from_orthogonal(module.weight) < 1e-12


@pytest.mark.parametrize("name", MAPS)
def test_a_weight_decay_leaves_it_orthogonal(name):
    module = parametrizations.orthogonal(nn.Linear(2, 4, dtype=gradhook.float64), "weight", name)
    optimizer = optim.SGD(module.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        module.weight.sum().backward()
        optimizer.step()
    assert distance_from_orthogonal(module.weight) < 1e-12


@pytest.mark.parametrize("name", MAPS)
def test_gradients_of_orthogonal_agree_with_finite_differences_twice(name):
    module = parametrizations.orthogonal(nn.Linear(2, 3, dtype=gradhook.float64), "weight", name)
    noise = gradhook.randn(3, 2, dtype=gradhook.float64) / 10
    original = (module.parametrizations.weight.original + noise).detach().requires_grad_()
    make = module.parametrizations.weight[0]
    assert gradhook.autograd.gradcheck(make, (original,))
    assert gradhook.autograd.gradgradcheck(make, (original,))


@pytest.mark.parametrize("name", MAPS[:2])
def test_a_complex_matrix_becomes_unitary(name):
    module = nn.Module()
    module.weight = nn.Parameter(gradhook.randn(3, 3, dtype=gradhook.complex128))
    parametrizations.orthogonal(module, orthogonal_map=name)
    assert distance_from_orthogonal(module.weight) < 1e-12
    with pytest.raises(ValueError, match="does not support complex tensors"):
        parametrizations.orthogonal(module, orthogonal_map="householder")


def test_orthogonal_keeps_a_matrix_that_is_orthogonal_and_takes_assignments():
    turn = gradhook.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=gradhook.float64)
    module = parametrizations.orthogonal(linear(turn.tolist()))
    assert gradhook.allclose(module.weight, turn)
    module.weight = turn.T
    assert gradhook.allclose(module.weight, turn.T)


def test_householder_without_trivialization_can_be_assigned_to_and_the_others_cannot():
    tall = gradhook.tensor([[0.6, 0.0], [0.8, 0.0], [0.0, -1.0]], dtype=gradhook.float64)
    module = parametrizations.orthogonal(
        linear([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
        orthogonal_map="householder",
        use_trivialization=False,
    )
    module.weight = tall
    assert gradhook.allclose(module.weight, tall)
    for name in MAPS[:2]:
        other = parametrizations.orthogonal(
            linear([[1.0, 0.0], [0.0, 1.0]]), orthogonal_map=name, use_trivialization=False
        )
        with pytest.raises(NotImplementedError, match="not possible to assign to the matrix expon"):
            other.weight = gradhook.eye(2, dtype=gradhook.float64)


def test_the_map_follows_from_the_shape():
    for shape, name in (((2, 2), "matrix_exp"), ((3, 2), "householder")):
        module = parametrizations.orthogonal(nn.Linear(*reversed(shape)))
        assert module.parametrizations.weight[0].orthogonal_map == name
        assert repr(module.parametrizations.weight[0]) == "_Orthogonal()"


def test_orthogonal_refuses_what_does_not_fit():
    module = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        parametrizations.orthogonal(module, "bias")
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(module, orthogonal_map="polar")
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'gain'"):
        parametrizations.orthogonal(module, "gain")
    parametrizations.orthogonal(module)
    with pytest.raises(ValueError, match=r"Expected a matrix or batch of matrices of shape"):
        module.weight = gradhook.ones(3, 3)


def test_recurrent_layers_read_a_parametrized_weight():
    layer = parametrizations.orthogonal(nn.RNN(2, 3), "weight_hh_l0")
    with parametrize.cached(), warnings.catch_warnings():
        warnings.simplefilter("error")
        out, _ = layer(gradhook.ones(4, 1, 2))
    out.sum().backward()
    assert layer.parametrizations.weight_hh_l0.original.grad is not None
