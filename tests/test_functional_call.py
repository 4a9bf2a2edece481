"""func.functional_call: a module with other parameters and buffers than its own."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import func, nn
from gradhook.nn.utils import parametrize, prune, stateless
from gradhook.nn.utils.parametrizations import spectral_norm


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)
        self.register_buffer("calls", gradhook.zeros(1))
        self.note = 0.0

    def forward(self, x, shift=0.0):
        self.calls.add_(1)
        return self.inner(x) + shift


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(gradhook.ones(1))
        self.b = self.c = self.a

    def forward(self, x):
        return x + self.a + 10 * self.b + 100 * self.c


def given(**values):
    return {name.replace("__", "."): gradhook.tensor(value) for name, value in values.items()}


def one():
    return gradhook.ones(1, 1)


def state_of(module):
    return [(name, id(t), t.tolist()) for name, t in module.state_dict(keep_vars=True).items()]


def test_the_given_tensors_are_used_and_the_module_s_own_are_back_afterwards():
    module = Scaled()
    before = state_of(module)
    tensors = given(inner__weight=[[3.0]], inner__bias=[1.0], calls=[5.0])
    assert func.functional_call(module, tensors, one()).tolist() == [[4.0]]
    assert func.functional_call(module, tensors, (one(),), {"shift": 2.0}).tolist() == [[6.0]]
    assert state_of(module) == before and tensors["calls"].tolist() == [7.0]


def test_gradients_go_to_the_given_tensors():
    module = Scaled()
    tensors = given(inner__weight=[[3.0]])
    tensors["inner.weight"].requires_grad_()
    (func.functional_call(module, tensors, 2 * one()) ** 1).sum().backward()
    assert tensors["inner.weight"].grad.tolist() == [[2.0]]
    assert module.inner.weight.grad is None and module.inner.bias.grad.tolist() == [1.0]


def test_a_chain_of_steps_is_differentiable_through_the_given_tensors():
    """One step of w' = w - 0.1 dL/dw, L = (w x)^2 at x = 1: L(w') = (0.8 w)^2, dL/dw = 1.28 w."""
    module = nn.Linear(1, 1, bias=False)
    w = gradhook.tensor([[2.0]], requires_grad=True)

    def loss(weight):
        return (func.functional_call(module, {"weight": weight}, one()) ** 2).sum()

    (step,) = gradhook.autograd.grad(loss(w), w, create_graph=True)
    loss(w - 0.1 * step).backward()
    assert w.grad.item() == pytest.approx(2.56)


def test_hooks_fire_as_in_any_call():
    module, seen = Scaled(), []
    module.inner.register_forward_hook(lambda m, a, out: seen.append(m.weight.item()))
    module.inner.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].item()))
    tensors = given(inner__weight=[[3.0]])
    tensors["inner.weight"].requires_grad_()
    func.functional_call(module, tensors, one()).sum().backward()
    assert seen == [3.0, 1.0]


def test_a_tensor_that_the_module_assigns_comes_back_in_the_dict_it_was_given_in():
    class Counting(nn.BatchNorm1d):
        def forward(self, x):
            self.running_mean = self.running_mean + 1
            return x

    module, start = Counting(1), gradhook.zeros(1)
    single = {"running_mean": start}
    func.functional_call(module, single, one())
    several = ({"weight": gradhook.ones(1)}, {"running_mean": start})
    func.functional_call(module, several, one())
    for some in (single, several[1]):
        assert some["running_mean"].tolist() == [1.0] and some["running_mean"] is not start
    assert module.running_mean.tolist() == start.tolist() == [0.0]


def test_running_statistics_are_written_to_the_given_buffers():
    module, mean = nn.BatchNorm1d(2), gradhook.zeros(2)
    func.functional_call(module, {"running_mean": mean}, gradhook.full((4, 2), 10.0))
    assert mean.tolist() == [1.0, 1.0] and module.running_mean.tolist() == [0.0, 0.0]


def test_a_tensor_stands_for_all_names_that_are_tied():
    module = Tied()
    call = func.functional_call
    assert call(module, given(b=[2.0]), one()).item() == 223.0
    assert call(module, given(b=[2.0]), one(), tie_weights=False).item() == 122.0
    same = gradhook.tensor([3.0])
    assert call(module, {"a": same, "c": same}, one()).item() == 334.0
    with pytest.raises(ValueError, match=r"multiple values for keys \['a', 'b', 'c'\], which are"):
        call(module, given(a=[1.0], b=[2.0]), one())
    assert call(module, {"a": same}, one(), strict=True).item() == 334.0


def test_strict_wants_the_names_of_all_tensors_and_no_others():
    module = Scaled()
    before = state_of(module)
    with pytest.raises(RuntimeError) as error:
        func.functional_call(module, given(inner__weight=[[1.0]], extra=[1.0]), one(), strict=True)
    assert str(error.value) == (
        "Error(s) in reparametrizing for Scaled:\n\tUnexpected key(s): 'extra'.\n\t"
        "Missing key(s): 'calls', 'inner.bias'."
    )
    assert state_of(module) == before
    func.functional_call(module, given(extra=[1.0]), one())
    assert not hasattr(module, "extra")


@pytest.mark.parametrize(
    ("tensors", "error", "text"),
    [
        ({"inner.weight": 3}, TypeError, "3 is not an instance of gradhook.Tensor"),
        ({"note": None}, TypeError, "attribute `note`: 0.0 is not an instance of"),
        ({"outer.weight": None}, AttributeError, "Scaled has no attribute `outer`"),
        ({"note.weight": None}, TypeError, "submodule `note`: 0.0 is not an instance of"),
        ({"": None}, KeyError, "be empty string"),
        (3, ValueError, "to be a dict, or a list/tuple of dicts, but got <class 'int'>"),
        ([3], ValueError, "to be dictionaries"),
        ([{"calls": None}, {"calls": None}], ValueError, r"\['calls'\] appeared in multiple"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(tensors, error, text):
    module = Scaled()
    before = state_of(module)
    if isinstance(tensors, dict):
        tensors = {"inner.bias": gradhook.zeros(1), **tensors}
    with pytest.raises(error, match=text):
        func.functional_call(module, tensors, one())
    assert state_of(module) == before


def test_after_an_error_in_forward_the_module_has_its_own_again():
    module = Scaled()
    before = state_of(module)
    with pytest.raises(RuntimeError):
        func.functional_call(module, given(inner__weight=[[1.0]], calls=[0.0]), gradhook.ones(3, 5))
    assert state_of(module) == before


def test_none_stands_for_an_absent_parameter():
    tensors = {"inner.weight": gradhook.tensor([[3.0]]), "inner.bias": None}
    assert func.functional_call(Scaled(), tensors, one()).tolist() == [[3.0]]


class Tripled(nn.Module):
    def forward(self, x):
        return 3 * x


def tripled():
    module = nn.Linear(1, 1, bias=False)
    return parametrize.register_parametrization(module, "weight", Tripled())


def test_the_name_of_a_parametrized_tensor_stands_for_the_result():
    module, weight = tripled(), gradhook.tensor([[2.0]], requires_grad=True)
    before = state_of(module)
    out = func.functional_call(module, {"weight": weight}, one())
    out.sum().backward()
    assert out.item() == 2.0 and weight.grad.tolist() == [[1.0]] and state_of(module) == before
    original = {"parametrizations.weight.original": weight}
    assert func.functional_call(module, original, one()).item() == 6.0
    assert parametrize.is_parametrized(module, "weight") and state_of(module) == before


def test_a_cache_outside_is_neither_read_nor_written():
    module = tripled()
    with parametrize.cached():
        kept = module.weight
        for value in (1.0, 2.0):
            tensors = {"parametrizations.weight.original": gradhook.tensor([[value]])}
            assert func.functional_call(module, tensors, one()).item() == 3 * value
        assert module.weight is kept


def test_modules_with_spectral_norm_and_pruned_ones_can_be_called():
    module = spectral_norm(nn.Linear(1, 1, bias=False))
    tensors = {"parametrizations.weight.original": gradhook.tensor([[-4.0]])}
    assert func.functional_call(module, tensors, one()).item() in (-1.0, 1.0)
    pruned = prune.identity(nn.Linear(1, 1, bias=False), "weight")
    out = func.functional_call(pruned, {"weight_orig": gradhook.tensor([[5.0]])}, one())
    assert out.item() == 5.0


def test_the_older_name_warns():
    with pytest.warns(FutureWarning, match="Please use `gradhook.func.functional_call` instead"):
        out = stateless.functional_call(Scaled(), given(inner__weight=[[0.0]]), one())
    assert out.shape == (1, 1)


def test_the_states_of_several_models_are_stacked_as_new_leaves():
    models = [nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.BatchNorm1d(2)]
    models[1].weight.data = gradhook.full((2,), 5.0)
    parameters, buffers = func.stack_module_state(models)
    assert list(parameters) == ["weight", "bias"] and parameters["weight"].shape == (3, 2)
    assert parameters["weight"].is_leaf and parameters["weight"].requires_grad
    assert parameters["weight"].tolist()[1] == [5.0, 5.0]
    assert (
        buffers["num_batches_tracked"].shape == (3,) and not buffers["running_mean"].requires_grad
    )
    x = gradhook.randn(4, 2)
    for i, model in enumerate(models):
        state = [{k: t[i] for k, t in some.items()} for some in (parameters, buffers)]
        assert gradhook.allclose(func.functional_call(model, state, x), model(x))


def test_models_that_differ_cannot_be_stacked():
    frozen = nn.Linear(1, 1)
    frozen.weight.requires_grad_(False)
    for models, text in (
        ([], "at least one model, got 0"),
        ([nn.Linear(1, 1), nn.Linear(1, 1).eval()], "the same training/eval mode"),
        ([nn.Linear(1, 1), nn.ReLU()], "all models to be of the same class"),
        ([nn.Linear(1, 1), frozen], "Expected weight from each model to have the same"),
    ):
        with pytest.raises(RuntimeError, match=text):
            func.stack_module_state(models)
