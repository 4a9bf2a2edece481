"""Parametrizations that do not fit: PyTorch's errors, after which the module is as it was."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import nn
from gradhook.nn.utils import parametrize as P


class Double(nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


def linear(values=((1.0, 2.0), (3.0, 4.0))):
    module = nn.Linear(2, 2, bias=False)
    module.weight.data = gradhook.tensor(values)
    return module


def doubled():
    return P.register_parametrization(linear(), "weight", Double())


class Wrong(nn.Module):
    def __init__(self, forward=None, inverse=None):
        super().__init__()
        self.made, self.inverted = forward or (lambda x: x), inverse or (lambda x: x)

    def forward(self, *args):
        return self.made(*args)

    def right_inverse(self, x):
        return self.inverted(x)


WRONG_FIRST = [
    (Wrong(lambda x: 2), "A parametrization must return a tensor. Got int."),
    (Wrong(lambda x: x.double()), "may not change the dtype of the tensor, unless `unsafe` flag"),
    (Wrong(lambda x: x[:1]), "may not change the shape of the tensor, unless `unsafe` flag"),
    (Wrong(inverse=lambda x: None), "must return a Tensor or a Sequence of tensors"),
    (Wrong(inverse=lambda x: (x, None)), "Got element 1 of the sequence with type NoneType."),
    (Wrong(inverse=lambda x: x.double()), "outputs one tensor, it may not change the dtype"),
    (Wrong(lambda x: x[:1], lambda x: x * 0), "may not change the shape"),
]
WRONG_FURTHER = [
    (Wrong(lambda x: (x, x)), "A parametrization must return a tensor. Got tuple."),
    (Wrong(lambda x: x.double()), "may not change the dtype of the tensor, unless the `unsafe`"),
    (Wrong(lambda x: x[:1]), "may not change the shape of the tensor, unless the `unsafe` flag"),
    (Wrong(inverse=lambda x: (x, x)), "right_inverse must return a tensor. Got: tuple"),
    (Wrong(inverse=lambda x: x.double()), "right_inverse must have the same dtype"),
    (Wrong(inverse=lambda x: x[:1]), "right_inverse must have the same shape"),
]


@pytest.mark.parametrize(("wrong", "text"), WRONG_FIRST)
def test_a_first_parametrization_that_does_not_fit_changes_nothing(wrong, text):
    module = linear()
    weight = module.weight
    with pytest.raises(ValueError) as error:
        P.register_parametrization(module, "weight", wrong)
    assert text in str(error.value)
    assert type(module) is nn.Linear and module.weight is weight
    assert weight.tolist() == [[1.0, 2.0], [3.0, 4.0]] and list(module._modules) == []


@pytest.mark.parametrize(("wrong", "text"), WRONG_FURTHER)
def test_a_further_parametrization_that_does_not_fit_changes_nothing(wrong, text):
    module = doubled()
    with pytest.raises(ValueError) as error:
        P.register_parametrization(module, "weight", wrong)
    assert text in str(error.value) and len(module.parametrizations.weight) == 1
    assert module.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_unsafe_may_change_shape_and_dtype_and_stays_on():
    module = P.register_parametrization(linear(), "weight", Wrong(lambda x: x[:1]), unsafe=True)
    assert module.weight.shape == (1, 2)
    P.register_parametrization(module, "weight", Double())
    assert module.parametrizations.weight.unsafe


def test_unknown_tensors_are_named():
    module = linear()
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized"):
        P.register_parametrization(module, "gain", Double())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        P.remove_parametrizations(module, "weight")
    with pytest.raises(ValueError, match="requires one or more modules"):
        P.ParametrizationList([], module.weight)


class Changing(nn.Module):
    """Its right_inverse returns what it is told."""

    def __init__(self, first):
        super().__init__()
        self.result = first

    def forward(self, *args):
        return args[0]

    def right_inverse(self, x):
        return self.result


@pytest.mark.parametrize(
    ("first", "then", "text"),
    [
        (gradhook.ones(2, 2), (), "`right_inverse` should return a tensor. Got tuple"),
        (gradhook.ones(2, 2), gradhook.ones(2, 2).double(), "has dtype gradhook.float64 while"),
        ((gradhook.ones(2, 2),) * 2, 3, "must return a sequence of tensors. Got int."),
        ((gradhook.ones(2, 2),) * 2, [gradhook.ones(2)], "of length 2. Got a sequence of length 1"),
        ((gradhook.ones(2, 2),) * 2, [gradhook.zeros(2, 2), 1], "Got element 1 of type int."),
        (
            (gradhook.ones(2, 2),) * 2,
            [gradhook.zeros(2, 2), gradhook.ones(2, 2).double()],
            "Tensor 1 returned by `right_inverse` has dtype gradhook.float64 while `original1` has",
        ),
    ],
)
def test_an_assignment_that_does_not_fit_changes_no_original(first, then, text):
    here = gradhook.empty(0).device
    moved = tuple(t.to(here) for t in first) if isinstance(first, tuple) else first.to(here)
    parametrization = Changing(moved)
    module = P.register_parametrization(linear(), "weight", parametrization)
    parametrization.result = then
    with pytest.raises(ValueError) as error:
        module.weight = gradhook.ones(2, 2)
    assert text in str(error.value)
    assert all((p == 1).all() for p in module.parameters())


def test_an_attribute_that_a_parametrization_lacks_is_named():
    module = P.register_parametrization(linear(), "weight", Wrong(lambda x: x))
    module.parametrizations.weight[0].made = lambda x: x.no_such_thing
    with pytest.raises(
        RuntimeError, match=r"parametrization of 'weight' of <ParametrizedLinear>.*no"
    ):
        module.weight  # noqa: B018
